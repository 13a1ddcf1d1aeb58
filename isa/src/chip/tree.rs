//! What a chip file says, as a tree of keys and values. The chips and nodes that come with the program are made into such trees when
//! it is built (`build.rs` has this file too); others are read as TOML.

use std::borrow::Cow;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A key with its value, and where both are in the text (bytes; nothing for what was built in).
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    pub key: Cow<'a, str>,
    pub key_at: (usize, usize),
    pub value: Node<'a>,
    pub at: (usize, usize),
}

/// A value.
#[derive(Clone, Debug)]
pub enum Node<'a> {
    Text(Cow<'a, str>),
    /// None: an integer that is too large.
    Number(Option<f64>),
    Table(Vec<Entry<'a>>),
    BuiltIn(&'static [Entry<'static>]),
    /// What no chip file has.
    Other,
}

impl<'a> Node<'a> {
    /// The entries of a table.
    pub fn table(&self) -> Option<&[Entry<'a>]> {
        match self {
            Node::Table(entries) => Some(entries),
            Node::BuiltIn(entries) => Some(entries),
            Node::Text(_) | Node::Number(_) | Node::Other => None,
        }
    }

    /// The text of a text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Node::Text(text) => Some(text),
            Node::Number(_) | Node::Table(_) | Node::BuiltIn(_) | Node::Other => None,
        }
    }
}

/// The value of a key.
pub fn find<'t, 'a>(table: &'t [Entry<'a>], key: &str) -> Option<&'t Entry<'a>> {
    table.iter().find(|e| e.key == key)
}

/// The tree of a TOML table.
pub fn of_table<'a>(table: &DeTable<'a>) -> Vec<Entry<'a>> {
    let at = |span: std::ops::Range<usize>| (span.start, span.end);
    let entry = |(key, value): (&Spanned<Cow<'a, str>>, &Spanned<DeValue<'a>>)| Entry {
        key: key.get_ref().clone(),
        key_at: at(key.span()),
        value: of_value(value.get_ref()),
        at: at(value.span()),
    };
    table.iter().map(entry).collect()
}

fn of_value<'a>(value: &DeValue<'a>) -> Node<'a> {
    match value {
        DeValue::String(s) => Node::Text(s.clone()),
        DeValue::Integer(i) => Node::Number(i64::from_str_radix(i.as_str(), i.radix()).ok().map(|n| n as f64)),
        DeValue::Float(x) => x.as_str().parse::<f64>().map_or(Node::Other, |n| Node::Number(Some(n))),
        DeValue::Table(t) => Node::Table(of_table(t)),
        DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) => Node::Other,
    }
}
