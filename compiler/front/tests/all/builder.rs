//! Values of the worked examples, and what is refused.

use systole_eval::{EvalOptions, Tensor, evaluate};
use systole_front::builder::{Built, XlaBuilder, XlaOp};
use systole_hlo::graph::{Collective, PadDim, RngAlgorithm, Shape};
use systole_isa::DType::{F32, Pred, S32, U32, U64};

fn run(f: impl FnOnce(&mut XlaBuilder) -> Built) -> Tensor {
    let mut b = XlaBuilder::new("m");
    let root = f(&mut b).expect("the call is right");
    let program = b.build(root).expect("the program is right");
    let result = evaluate(program.module(), &[], &EvalOptions::default()).expect("it runs");
    result.into_leaves().remove(0)
}

fn ints(t: &Tensor) -> Vec<i32> {
    t.bytes().chunks(4).map(|b| i32::from_le_bytes(b.try_into().expect("four"))).collect()
}

/// `a[i,j,k] = 10 i + j` in tens, so that orders show: the array `f32[4,2,3]` of the examples as numbers.
fn v423(b: &mut XlaBuilder) -> XlaOp {
    let values: Vec<i32> =
        (0..4).flat_map(|i| (0..2).flat_map(move |j| (0..3).map(move |k| 10 + 10 * i * 2 / 2 + 5 * j + k))).collect();
    let flat = b.constant_r1(&values);
    b.reshape_to(flat, &[4, 2, 3]).expect("24 elements")
}

#[test]
fn examples_have_their_values() {
    let r2 = |b: &mut XlaBuilder| b.constant_r2(&[&[1, 2, 3], &[4, 5, 6]]);
    // A vector along the rows, or along the columns, of a matrix.
    let t = run(|b| {
        let (x, v) = (r2(b)?, b.constant_r1(&[7, 8, 9]));
        b.add(x, v, &[1])
    });
    assert_eq!((ints(&t), t.dims), (vec![8, 10, 12, 11, 13, 15], vec![2, 3]));
    let t = run(|b| {
        let (x, v) = (r2(b)?, b.constant_r1(&[10, 20]));
        b.mul(v, x, &[0])
    });
    assert_eq!(ints(&t), [10, 20, 30, 80, 100, 120]);
    // Dimensions of size 1 in different places.
    let t = run(|b| {
        let (x, y) = (b.constant_r2(&[&[1], &[2]])?, b.constant_r2(&[&[10, 20, 30]])?);
        b.add(x, y, &[])
    });
    assert_eq!((ints(&t), t.dims), (vec![11, 21, 31, 12, 22, 32], vec![2, 3]));
    // Both rules in one call.
    let t = run(|b| {
        let (x, y) = (b.constant_r1(&[1, 2, 3, 4]), b.constant_r2(&[&[10, 20]])?);
        b.add(x, y, &[0])
    });
    assert_eq!((ints(&t), t.dims), (vec![11, 21, 12, 22, 13, 23, 14, 24], vec![4, 2]));
    let t = run(|b| {
        let (x, y) = (b.constant_r2(&[&[10, 20]])?, b.constant_r1(&(1..=12).collect::<Vec<i32>>()));
        let y = b.reshape_to(y, &[4, 3, 1])?;
        b.add(x, y, &[1, 2])
    });
    assert_eq!((ints(&t)[..4].to_vec(), t.dims), (vec![11, 21, 12, 22], vec![4, 3, 2]));
    // The first dimension fastest.
    let t = run(|b| {
        let v = v423(b);
        b.reshape(v, &[2, 1, 0], &[24])
    });
    assert_eq!(ints(&t)[..8], [10, 20, 30, 40, 15, 25, 35, 45]);
    let t = run(|b| {
        let (x, p) = (b.constant_r1(&[1, 2, 3]), b.constant_r0(0));
        b.pad(x, p, &[PadDim { low: -1, high: 2, interior: 1 }])
    });
    assert_eq!(ints(&t), [0, 2, 0, 3, 0, 0]);
    let t = run(|b| {
        let (x, i) = (b.constant_r1(&[0, 1, 2, 3, 4]), b.constant_r0(2));
        b.dynamic_slice(x, &[i], &[2])
    });
    assert_eq!(ints(&t), [2, 3]);
    let t = run(|b| {
        let (k, v) = (b.constant_r1(&[3, 1, 2]), b.constant_r1(&[30, 10, 20]));
        let sorted = b.sort_keys(k, &[v], 0)?;
        b.get_tuple_element(sorted, 1)
    });
    assert_eq!(ints(&t), [10, 20, 30]);
    assert_eq!(ints(&run(|b| b.iota_1d(S32, 4))), [0, 1, 2, 3]);
}

#[test]
fn random_ones_come_as_often_as_asked_for() {
    let t = run(|b| {
        let mean = b.constant_r0(0.25f32);
        b.rng_bernoulli(mean, &Shape::array(S32, &[10_000]))
    });
    let ones: i32 = ints(&t).iter().sum();
    assert!((2200..2800).contains(&ones), "{ones}");
    let mut b = XlaBuilder::new("m");
    let state = b.constant_r1(&[1u64, 2]);
    let drawn = b.rng_bit_generator(RngAlgorithm::ThreeFry, state, &Shape::array(U32, &[5])).expect("a pair");
    assert_eq!(b.get_shape(drawn), &Shape::Tuple(vec![Shape::array(U64, &[2]), Shape::array(U32, &[5])]));
}

/// What is wrong is said with the shapes.
#[test]
fn mistakes_are_explained() {
    let f = |dims: &[u64]| Shape::array(F32, dims);
    let table: [(&[u64], &[u64], &[i64], &str); 8] = [
        (&[2, 3], &[3], &[], "need broadcast_dimensions"),
        (&[2, 3], &[3], &[0], "does not match"),
        (&[2, 3], &[3], &[2], "no dimension 2"),
        (&[2, 3], &[3], &[-1], "negative"),
        (&[2, 3], &[3], &[0, 1], "2 broadcast_dimensions for the 1"),
        (&[2, 3, 4], &[3, 2], &[1, 0], "strictly increasing"),
        (&[2, 3], &[2, 4], &[], "sizes 3 and 4"),
        (&[2, 3], &[2, 3], &[1, 0], "one rank"),
    ];
    for (l, r, dims, part) in table {
        let mut b = XlaBuilder::new("m");
        let (l, r) = (b.parameter(0, &f(l), "l").expect("first"), b.parameter(1, &f(r), "r").expect("second"));
        let message = b.add(l, r, dims).expect_err("it must be refused").to_string();
        assert!(message.contains(part), "{part}: {message}");
    }
    let mut b = XlaBuilder::new("m");
    assert!(b.parameter(1, &f(&[]), "x").is_err());
    let x = b.parameter(0, &f(&[4, 6]), "x").expect("first");
    let p = b.constant_r0(true);
    assert_eq!(b.get_shape(p), &Shape::array(Pred, &[]));
    assert!(b.cross_replica_sum(x, &[0, 2]).is_err() && b.bitcast_convert_type(x, systole_isa::DType::F64).is_err());
    assert!(b.all_to_all(x, 0, 1, 3, &Collective::default()).is_err());
    let y = b.all_to_all(x, 0, 1, 4, &Collective::default()).expect("4 parts of 1");
    assert_eq!(b.get_shape(y), &f(&[1, 24]));
}
