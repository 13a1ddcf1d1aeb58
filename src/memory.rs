//! How the process gets memory from its system.

#![allow(unsafe_code, reason = "the system is told how memory will be used, which changes nothing of what it holds")]

/// Allocations below this, in bytes, glibc takes from memory that was freed before, of which it keeps twice as much. It takes no higher
/// bound.
const RECYCLED: usize = 32 << 20;
/// What a thread's heap begins with: little enough to be taken from there.
const HEAP: usize = 31 << 20;
/// A large page.
const LARGE_PAGE: usize = 2 << 20;

/// Lets memory that is freed serve later allocations. Else every large array's pages are given back and faulted in anew.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn recycle() {
    // SAFETY: both are numbers, from which the C library decides where it takes memory from and when it gives it back.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, RECYCLED as libc::c_int);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 2 * RECYCLED as libc::c_int);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn recycle() {}

/// Lets what the thread allocates from now on lie in large pages where the system has such: one costs as much as some dozen of small
/// ones, whose faults are a tenth of the time of short runs. Called behind [`recycle`], by which the block is room at the end of the
/// thread's heap, which stays there.
pub fn expect_use() {
    let mut block = Vec::<u8>::with_capacity(HEAP);
    let start = block.as_mut_ptr() as usize;
    let first = start.next_multiple_of(LARGE_PAGE);
    let end = (start + HEAP) / LARGE_PAGE * LARGE_PAGE;
    advise(first as *mut u8, end - first);
    drop(std::hint::black_box(block));
    // Room up to the first large page, which nobody touches and nobody gives back.
    std::mem::forget(std::hint::black_box(Vec::<u8>::with_capacity(first - start)));
}

#[cfg(target_os = "linux")]
fn advise(first: *mut u8, bytes: usize) {
    // SAFETY: the range lies in a block that the caller owns, and the advice leaves its content alone. A system that cannot says no.
    unsafe { libc::madvise(first.cast(), bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn advise(_: *mut u8, _: usize) {}
