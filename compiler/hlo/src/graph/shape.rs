//! Shapes: element type and dimensions, tuples, tokens; layouts as HLO text writes them.

use systole_isa::DType;

/// The shape of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    Array(ArrayShape),
    Tuple(Vec<Shape>),
    Token,
}

/// An array's element type, sizes and optional layout.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    pub dtype: DType,
    pub dims: Vec<u64>,
    /// For each dimension, whether its size is only an upper bound (`f32[<=10]`). Empty: none is.
    pub dynamic: Vec<bool>,
    /// Dimension numbers, most minor first; `None`: not given (row-major).
    pub minor_to_major: Option<Vec<u8>>,
}

impl ArrayShape {
    /// A static array without a given layout.
    pub fn new(dtype: DType, dims: &[u64]) -> ArrayShape {
        ArrayShape { dtype, dims: dims.to_vec(), dynamic: Vec::new(), minor_to_major: None }
    }

    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Whether dimension `i`'s size is only an upper bound.
    pub fn is_dynamic(&self, i: usize) -> bool {
        self.dynamic.get(i).copied().unwrap_or(false)
    }

    /// The given layout, or row-major.
    pub fn layout(&self) -> Vec<u8> {
        self.minor_to_major.clone().unwrap_or_else(|| (0..self.rank() as u8).rev().collect())
    }

    /// Whether element type and sizes agree (layouts may differ).
    pub fn same(&self, other: &ArrayShape) -> bool {
        self.dtype == other.dtype && self.dims == other.dims
    }
}

impl Shape {
    /// A static array shape.
    pub fn array(dtype: DType, dims: &[u64]) -> Shape {
        Shape::Array(ArrayShape::new(dtype, dims))
    }

    pub fn as_array(&self) -> Option<&ArrayShape> {
        match self {
            Shape::Array(a) => Some(a),
            Shape::Tuple(_) | Shape::Token => None,
        }
    }

    /// Whether the shapes agree but for layouts.
    pub fn same(&self, other: &Shape) -> bool {
        match (self, other) {
            (Shape::Array(a), Shape::Array(b)) => a.same(b),
            (Shape::Tuple(a), Shape::Tuple(b)) => a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.same(y)),
            (Shape::Token, Shape::Token) => true,
            (Shape::Array(_) | Shape::Tuple(_) | Shape::Token, _) => false,
        }
    }

    /// The array leaves of a nested tuple in order (tokens left out).
    pub fn leaves(&self) -> Vec<&ArrayShape> {
        match self {
            Shape::Array(a) => vec![a],
            Shape::Tuple(t) => t.iter().flat_map(Shape::leaves).collect(),
            Shape::Token => Vec::new(),
        }
    }
}

impl std::fmt::Display for ArrayShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}[", self.dtype)?;
        for (i, d) in self.dims.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let bound = if self.is_dynamic(i) { "<=" } else { "" };
            write!(f, "{comma}{bound}{d}")?;
        }
        f.write_str("]")?;
        if let Some(l) = &self.minor_to_major {
            let l: Vec<String> = l.iter().map(u8::to_string).collect();
            write!(f, "{{{}}}", l.join(","))?;
        }
        Ok(())
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Shape::Array(a) => a.fmt(f),
            Shape::Tuple(t) => {
                f.write_str("(")?;
                for (i, s) in t.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    s.fmt(f)?;
                }
                f.write_str(")")
            }
            Shape::Token => f.write_str("token[]"),
        }
    }
}
