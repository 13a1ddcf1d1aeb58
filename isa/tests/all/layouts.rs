//! Arrays as they lie in memory, and back.

use systole_isa::{DType, Layout};

#[test]
fn host_to_device_and_back() {
    let all = [DType::Pred, DType::S8, DType::BF16, DType::F32, DType::S64, DType::C64, DType::C128];
    for dtype in all {
        for dims in [&[][..], &[5], &[300], &[3, 5], &[1, 7], &[2, 9, 20], &[2, 3, 5, 17], &[4, 0, 3], &[3, 1, 5]] {
            for reverse in [false, true] {
                let m2m: Vec<u8> =
                    if reverse { (0..dims.len() as u8).collect() } else { (0..dims.len() as u8).rev().collect() };
                let l = Layout::new(dtype, dims, &m2m, 4, 8);
                let n = dims.iter().product::<u64>() as usize * dtype.host_bytes();
                let host: Vec<u8> = (0..n).map(|i| (i * 7 + i / 251) as u8).collect();
                let device = l.to_device(&host);
                assert_eq!(l.to_host(&device), host, "{dtype} {dims:?} {m2m:?}");
                // In parts that cut rows of words, and words.
                let mut parts = vec![0; device.len()];
                let mut from = 0;
                for size in [1, 30, 64, 97, 7].into_iter().cycle() {
                    let end = device.len().min(from + size);
                    l.pack_host(&host, from as u64, &mut parts[from..end]);
                    from = end;
                    if from == device.len() {
                        break;
                    }
                }
                assert_eq!(parts, device, "{dtype} {dims:?} {m2m:?} in parts");
                if !dims.is_empty() && n > 0 {
                    let index: Vec<u64> = dims.iter().map(|d| d - 1).collect();
                    let (row, lane) = l.locate(&index);
                    let at = l.byte_offset(row, lane) as usize;
                    assert_eq!(device[at], host[n - dtype.host_bytes()], "last element of {dtype} {dims:?}");
                }
            }
        }
    }
}
