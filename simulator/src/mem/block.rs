//! Host memory that simulated memories are made of: zero until written, and taken from the host where it is first touched.

use memmap2::MmapMut;
use std::ops::{Deref, DerefMut};

/// A stretch of zeroed memory.
#[derive(Debug)]
pub(crate) enum Block {
    /// Pages of the host by themselves: nothing is touched before its time, and many can be asked for at once.
    Pages(MmapMut),
    /// Where the host gives no pages.
    Heap(Vec<u32>),
}

impl Block {
    /// Zeroed memory of a multiple of four bytes.
    pub fn new(bytes: usize) -> Block {
        match MmapMut::map_anon(bytes.max(4)) {
            Ok(pages) => Block::Pages(pages),
            Err(_) => Block::Heap(vec![0; bytes / 4]),
        }
    }

    /// `bytes` from `at` on are about to be written: their pages are taken at once, for a fraction of what they cost one by one.
    /// (Large pages would cost less still, but come from memory that nobody used before, which virtual machines clear slowly.)
    pub fn expect_use(&self, at: usize, bytes: usize) {
        match self {
            #[cfg(target_os = "linux")]
            Block::Pages(pages) => {
                // A host that cannot says no, and nothing else changes.
                let _ = pages.advise_range(memmap2::Advice::PopulateWrite, at, bytes);
            }
            #[cfg(not(target_os = "linux"))]
            Block::Pages(_) => {}
            Block::Heap(_) => {}
        }
    }

    /// The memory as bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Block::Pages(pages) => pages,
            Block::Heap(words) => bytemuck::cast_slice(words),
        }
    }

    /// The memory as bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Block::Pages(pages) => pages,
            Block::Heap(words) => bytemuck::cast_slice_mut(words),
        }
    }
}

/// The memory as words.
impl Deref for Block {
    type Target = [u32];
    fn deref(&self) -> &[u32] {
        match self {
            Block::Pages(pages) => bytemuck::cast_slice(pages),
            Block::Heap(words) => words,
        }
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u32] {
        match self {
            Block::Pages(pages) => bytemuck::cast_slice_mut(pages),
            Block::Heap(words) => words,
        }
    }
}
