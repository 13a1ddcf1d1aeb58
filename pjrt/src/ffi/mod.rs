//! The structures of the PJRT C interface (version 0.112), by hand.

pub mod buffer;
pub mod common;
pub mod device;
pub mod executable;
pub mod handle;

/// Proves at compile time that a structure is laid out as in C: its size, and where its last field stands.
pub(crate) const fn same<T>(size: usize, last: usize, expected: usize) {
    assert!(size_of::<T>() == size, "a structure's size differs from C's");
    assert!(last == expected, "a structure's last field stands elsewhere in C");
}
