//! What an old node's value is in the new computation: nested tuples are taken apart.

use systole_hlo::graph::{NodeId, Shape};

/// A value whose array leaves are `T`.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<T> {
    Array(T),
    Tuple(Vec<Value<T>>),
    Token,
    /// A transfer under way (`send`, `recv`).
    Handle(NodeId),
}

impl<T: Copy> Value<T> {
    /// The array leaves in order.
    pub fn leaves(&self) -> Vec<T> {
        match self {
            Value::Array(t) => vec![*t],
            Value::Tuple(parts) => parts.iter().flat_map(Value::leaves).collect(),
            Value::Token | Value::Handle(_) => Vec::new(),
        }
    }

    /// The same structure with other leaves.
    pub fn map<U>(&self, f: &mut dyn FnMut(T) -> U) -> Value<U> {
        match self {
            Value::Array(t) => Value::Array(f(*t)),
            Value::Tuple(parts) => Value::Tuple(parts.iter().map(|p| p.map(f)).collect()),
            Value::Token => Value::Token,
            Value::Handle(h) => Value::Handle(*h),
        }
    }

    /// Element `index` of a tuple.
    pub fn element(&self, index: usize) -> Option<&Value<T>> {
        match self {
            Value::Tuple(parts) => parts.get(index),
            Value::Array(_) | Value::Token | Value::Handle(_) => None,
        }
    }
}

/// A value of a shape, from its leaves in order; `None` if there are too few.
pub fn of_shape<T: Copy>(shape: &Shape, leaves: &mut dyn Iterator<Item = T>) -> Option<Value<T>> {
    Some(match shape {
        Shape::Array(_) => Value::Array(leaves.next()?),
        Shape::Tuple(parts) => Value::Tuple(parts.iter().map(|p| of_shape(p, leaves)).collect::<Option<_>>()?),
        Shape::Token => Value::Token,
    })
}
