//! Grammars of single attributes: windows, convolution labels, paddings, slices, precisions.

use super::PResult;
use super::lex::Cursor;
use systole_hlo::graph::{ConvDims, ConvPlaces, PadDim, Precision, SliceDim, WindowDim};

impl<'a> Cursor<'a> {
    /// `axbxc` split into parts, each given to `f`.
    fn by_x<T>(&mut self, what: &str, f: impl Fn(&str) -> Option<T>) -> PResult<Vec<T>> {
        let w = self.peek_word();
        let mut out = Vec::new();
        for part in w.split('x') {
            match f(part) {
                Some(v) => out.push(v),
                None => return Err(self.unexpected(what)),
            }
        }
        self.advance(w.len());
        Ok(out)
    }

    /// `{size=2x2 stride=1x1 pad=0_0x0_0 lhs_dilate=1x1 rhs_dilate=1x1 rhs_reversal=0x0}`
    pub fn window(&mut self) -> PResult<Vec<WindowDim>> {
        let start = *self;
        self.expect("{", "to begin a window")?;
        let mut dims: Option<Vec<WindowDim>> = None;
        while !self.eat("}") {
            let mut at = *self;
            let field = self.word("a field of a window such as size=2x2")?;
            self.expect("=", "after the field's name")?;
            let number = |s: &str| s.parse::<u64>().ok().filter(|&v| v <= i64::MAX as u64);
            let set = |dims: &mut Vec<WindowDim>, values: Vec<u64>, f: fn(&mut WindowDim, u64)| {
                dims.iter_mut().zip(values).for_each(|(d, v)| f(d, v));
            };
            let mut fill = |n: usize, given: usize| -> PResult<()> {
                if n == given {
                    Ok(())
                } else {
                    Err(at.error_here(format!("`{field}` has {given} entries where the window has {n} dimensions")))
                }
            };
            if field == "pad" {
                let pads = self.by_x("a padding such as 0_1x2_2", |s| {
                    let (low, high) = s.split_once('_')?;
                    Some((low.parse::<i64>().ok()?, high.parse::<i64>().ok()?))
                })?;
                let d = dims.get_or_insert_with(|| vec![WindowDim::TRIVIAL; pads.len()]);
                fill(d.len(), pads.len())?;
                for (d, (low, high)) in d.iter_mut().zip(pads) {
                    (d.pad_low, d.pad_high) = (low, high);
                }
                continue;
            }
            let values = self.by_x("sizes such as 2x2", number)?;
            let d = dims.get_or_insert_with(|| vec![WindowDim::TRIVIAL; values.len()]);
            fill(d.len(), values.len())?;
            match field {
                "size" => set(d, values, |d, v| d.size = v),
                "stride" => set(d, values, |d, v| d.stride = v),
                "lhs_dilate" => set(d, values, |d, v| d.base_dilation = v),
                "rhs_dilate" => set(d, values, |d, v| d.window_dilation = v),
                "rhs_reversal" => set(d, values, |d, v| d.reversal = v != 0),
                _ => return Err(at.unexpected("one of size, stride, pad, lhs_dilate, rhs_dilate, rhs_reversal")),
            }
        }
        let dims = dims.unwrap_or_default();
        let mut at = start;
        for d in &dims {
            let big = i64::MAX as u64 >> 16;
            let pads = d.pad_low.unsigned_abs().max(d.pad_high.unsigned_abs());
            if d.size.max(d.stride).max(d.base_dilation).max(d.window_dilation).max(pads) > big {
                return Err(at.error_here("a number of the window is too large"));
            }
        }
        Ok(dims)
    }

    /// `b01f_01io->b01f`
    pub fn conv_labels(&mut self) -> PResult<ConvDims> {
        let mut at = *self;
        let text = self.rest().trim_end();
        self.advance(self.rest().len());
        let usage = "convolution labels such as b01f_01io->b01f";
        let Some((operands, output)) = text.split_once("->") else { return Err(at.unexpected(usage)) };
        let Some((input, kernel)) = operands.split_once('_') else { return Err(at.unexpected(usage)) };
        let mut side = |labels: &str, a: char, b: char| -> PResult<ConvPlaces> {
            let n = labels.chars().count();
            let place = |c: char| labels.chars().position(|x| x == c);
            let (Some(first), Some(second)) = (place(a), place(b)) else {
                return Err(at.error_here(format!("the labels `{labels}` lack `{a}` or `{b}`")));
            };
            let mut spatial = Vec::new();
            for i in 0..n.saturating_sub(2) {
                match char::from_digit(i as u32, 10).and_then(place) {
                    Some(p) => spatial.push(p),
                    None => {
                        let d = at.error_here(format!("the labels `{labels}` do not name each dimension once"));
                        return Err(Box::new(d.note(format!("spatial dimensions are numbered from 0; {usage}"))));
                    }
                }
            }
            Ok((first, second, spatial))
        };
        let (input, kernel, output) = (side(input, 'b', 'f')?, side(kernel, 'i', 'o')?, side(output, 'b', 'f')?);
        Ok(ConvDims { input: input.into(), kernel: kernel.into(), output: output.into() })
    }

    /// `0_1_2x-1_0`: low, high and optionally interior of each dimension.
    pub fn padding(&mut self) -> PResult<Vec<PadDim>> {
        self.by_x("a padding such as 0_1x2_2_1 (low_high or low_high_interior; interior is not negative)", |s| {
            let mut parts = s.split('_');
            let mut next = || parts.next().map(|p| p.parse::<i64>().ok().filter(|v| v.unsigned_abs() < 1 << 46));
            let (low, high) = (next()??, next()??);
            let interior = match next() {
                None => 0,
                Some(v) => u64::try_from(v?).ok()?,
            };
            if next().is_some() { None } else { Some(PadDim { low, high, interior }) }
        })
    }

    /// `{[0:4], [0:8:2]}`
    pub fn slice_dims(&mut self) -> PResult<Vec<SliceDim>> {
        self.list("slices", |c| {
            c.expect("[", "to begin a slice `[start:limit:stride]`")?;
            let start = c.uint("a start")?;
            c.expect(":", "after the start")?;
            let limit = c.uint("a limit")?;
            let stride = if c.eat(":") { c.uint("a stride")? } else { 1 };
            c.expect("]", "to end a slice")?;
            Ok(SliceDim { start, limit, stride })
        })
    }

    /// `{default,highest}`: the highest of them.
    pub fn precisions(&mut self) -> PResult<Precision> {
        let names = [
            ("default", Precision::Default),
            ("high", Precision::High),
            ("highest", Precision::Highest),
            ("packed_nibble", Precision::Default),
        ];
        Ok(self.list("precisions", |c| c.keyword(&names))?.into_iter().max().unwrap_or_default())
    }
}

/// The precision that a dot's `algorithm=` asks for.
pub(crate) fn algorithm_precision(name: &str) -> Precision {
    match name.strip_prefix("dot_").unwrap_or(name) {
        n if n.ends_with("_x6") || n.ends_with("_x9") => Precision::Highest,
        n if n.ends_with("_x3") => Precision::High,
        n if n.starts_with("f32") || n.starts_with("f64") => Precision::Highest,
        n if n.starts_with("tf32") => Precision::High,
        _ => Precision::Default,
    }
}
