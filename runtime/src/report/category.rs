//! Categories of operations, by opcode.

/// What kind of work an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    Matrix,
    Convolution,
    Elementwise,
    Reduction,
    Movement,
    Scatter,
    Collective,
    Control,
    Other,
    /// Code of no operation: the launch, the main program's own.
    None,
}

/// Every category with its name and the opcodes in it.
#[rustfmt::skip]
pub const TABLE: &[(Category, &str, &[&str])] = &[
    (Category::Matrix, "matrix product", &["dot", "dot-general", "ragged-dot", "triangular-solve", "cholesky"]),
    (Category::Convolution, "convolution", &["convolution"]),
    (Category::Reduction, "reduction", &["reduce", "reduce-window", "sort", "topk", "select-and-scatter"]),
    (Category::Movement, "data movement", &[
        "copy", "copy-start", "copy-done", "transpose", "reshape", "bitcast", "broadcast", "slice", "dynamic-slice",
        "dynamic-update-slice", "concatenate", "pad", "reverse", "iota", "constant", "parameter", "tuple",
        "get-tuple-element", "bitcast-convert", "real-dynamic-slice",
    ]),
    (Category::Scatter, "gather and scatter", &["gather", "scatter"]),
    (Category::Collective, "collective", &[
        "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute", "collective-broadcast",
        "all-reduce-start", "all-reduce-done", "all-gather-start", "all-gather-done", "collective-permute-start",
        "collective-permute-done", "send", "recv", "send-done", "recv-done", "ragged-all-to-all",
    ]),
    (Category::Control, "control", &["while", "conditional", "call", "async-start", "async-update", "async-done"]),
    (Category::Other, "other", &["custom-call", "infeed", "outfeed", "rng", "rng-bit-generator", "fft", "after-all"]),
    (Category::None, "no operation", &[]),
    (Category::Elementwise, "elementwise", &[]),
];

impl Category {
    /// The category of an opcode; the many that compute element by element are those of no list.
    pub fn of(opcode: &str) -> Category {
        TABLE.iter().find(|t| t.2.contains(&opcode)).map_or(Category::Elementwise, |t| t.0)
    }

    pub fn name(self) -> &'static str {
        TABLE.iter().find(|t| t.0 == self).map_or("other", |t| t.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_have_one_category() {
        for (opcode, name) in [
            ("dot", "matrix product"),
            ("all-reduce-start", "collective"),
            ("tanh", "elementwise"),
            ("reduce", "reduction"),
        ] {
            assert_eq!(Category::of(opcode).name(), name, "{opcode}");
        }
        let mut all: Vec<&str> = TABLE.iter().flat_map(|t| t.2).copied().collect();
        let n = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), n, "no opcode is in two categories");
    }
}
