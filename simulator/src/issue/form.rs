//! Forms of bundles: bundles that are the same but for registers and immediates have most of what loading finds out in common. It is
//! found out once for each form, and a bundle is asked only for what is its own.

use super::code::Head;
use super::uses::{Hazard, ScalarForm};
use std::ops::Range;
use systole_isa::decode::Words;

/// A resource that an instruction of a form's bundles waits for or defines: the `first` one that an operand may name, and the operand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    first: u16,
    /// The instruction's number in the bundle; the operand's bits in its word: where they begin, and a mask.
    at: u8,
    shift: u8,
    mask: u8,
    /// Of what is defined, from the issue on.
    pub delta: u32,
}

impl Place {
    /// That of a hazard of a form's instruction, of which a bundle's has this word; `own`: the bits that are the form's.
    pub fn new(hazard: Hazard, at: u8, word: u64, own: u64) -> Place {
        let Hazard { shift, mask, step, first, delta } = hazard;
        if own >> shift & u64::from(mask) == u64::from(mask) {
            // The same for all bundles.
            return Place { first: hazard.resource(word) as u16, at, shift: 0, mask: 0, delta };
        }
        debug_assert!(step == 1, "only queues lie apart, and they are the form's");
        Place { first, at, shift, mask, delta }
    }

    /// The resource in a bundle of these instructions.
    #[inline(always)]
    pub fn resource(&self, words: Words<'_>) -> usize {
        let word = u64::from_le_bytes(words[usize::from(self.at)]);
        usize::from(self.first) + usize::from((word >> (self.shift & 63)) as u8 & self.mask)
    }
}

/// What bundles of one form have in common.
#[derive(Clone, Debug)]
pub(super) struct Form {
    /// That of all of them, but for what is behind `reads`, `writes`, `scalars` and `values`: the first two are the most groups that a
    /// bundle has of each.
    pub head: Head,
    /// In [`Forms::places`]: what is only waited for; what is defined.
    pub waits: Range<u32>,
    pub definitions: Range<u32>,
    /// In [`Forms::scalars`]; whether one stores to scalar memory.
    pub scalars: Range<u32>,
    pub stores: bool,
    /// The number of the branch.
    pub branch: Option<u8>,
    /// Whether there is nothing of that, nor of what follows.
    pub plain: bool,
    /// In [`Forms::kept`].
    pub kept: Range<u32>,
}

/// The forms of a code's bundles.
#[derive(Default)]
pub(super) struct Forms {
    pub all: Vec<Form>,
    pub places: Vec<Place>,
    /// Scalar instructions, each with its number in the bundle.
    pub scalars: Vec<(u8, ScalarForm)>,
    /// Slot groups of which instructions keep single units, and for how long.
    pub kept: Vec<(u8, u32)>,
}

impl Forms {
    /// Makes room for so many.
    pub fn reserve(&mut self, forms: usize) {
        self.all.reserve(forms);
        // About what they need.
        self.places.reserve(16 * forms);
        self.scalars.reserve(2 * forms);
    }
}
