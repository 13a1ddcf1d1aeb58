//! Windows: what parts need of their neighbours.

use super::{Kind, Rule, gcd};
use systole_hlo::graph::WindowDim;

/// Whether a convolution's dimension is only looked at one place at a time.
pub(super) fn is_trivial(w: &WindowDim) -> bool {
    w.size == 1 && w.stride == 1 && w.pad_low == 0 && w.pad_high == 0 && w.base_dilation == 1
}

/// What a part needs of its neighbours' parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edges {
    pub low: u64,
    /// Less than nothing: the part's own end is not needed.
    pub high: i64,
}

/// What parts of a window's dimension need of their neighbours, where all need the same: the window moves by as much as there
/// are elements for each result.
pub fn edges(w: &WindowDim, from: u64, to: u64) -> Option<Edges> {
    let low = u64::try_from(w.pad_low).ok()?;
    if w.base_dilation != 1 || to.checked_mul(w.stride)? != from || from == 0 {
        return None;
    }
    let reach = i64::try_from(w.size.checked_sub(1)?.checked_mul(w.window_dilation)?.checked_add(1)?).ok()?;
    let high = reach - i64::try_from(w.stride).ok()? - w.pad_low;
    Some(Edges { low, high })
}

impl Rule {
    /// A factor of an operand's and a result's dimension along which a window moves, if parts need but their neighbours.
    pub(super) fn window(&mut self, w: &WindowDim, (from, to): (u64, u64), dims: &[(usize, usize)]) {
        let Some(e) = edges(w, from, to) else { return };
        self.link(Kind::Halo, gcd(from, to), dims);
        if let Some(f) = self.factors.last_mut() {
            f.most = from / e.low.max(e.high.unsigned_abs()).max(1);
        }
    }
}
