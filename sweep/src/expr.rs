//! Expressions over parameters and columns: `mxu.count * mxu.rows <= 1024`, `vmem.bytes >= 8 MiB`.
//!
//! Numbers may carry a unit. `+ - * /`, comparisons, `&&`, `||`, `!`, parentheses, `min(a, b)`, `max(a, b)`. Truth is 1.

use systole_isa::chip::Quantity;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    Number(f64),
    Name(String),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
}

/// An operator of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Or,
    And,
    Less,
    AtMost,
    Greater,
    AtLeast,
    Equal,
    Differs,
    Add,
    Subtract,
    Multiply,
    Divide,
    Min,
    Max,
}

/// Operators by text, loosest first.
const LEVELS: &[&[(&str, Operator)]] = &[
    &[("||", Operator::Or)],
    &[("&&", Operator::And)],
    &[
        ("<=", Operator::AtMost),
        (">=", Operator::AtLeast),
        ("==", Operator::Equal),
        ("!=", Operator::Differs),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[("*", Operator::Multiply), ("/", Operator::Divide)],
];

/// Deepest nesting that is read.
const DEPTH: usize = 64;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn rest(&mut self) -> &str {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        &self.text[self.at..]
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn fail<T>(&mut self, expected: &str) -> Result<T, String> {
        let at = self.at;
        Err(format!("`{}`: {expected} is expected at column {}", self.text, at + 1))
    }

    fn level(&mut self, level: usize) -> Result<Expr, String> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        'next: loop {
            for (text, op) in *operators {
                if self.eat(text) {
                    left = Expr::Binary(*op, Box::new(left), Box::new(self.level(level + 1)?));
                    continue 'next;
                }
            }
            return Ok(left);
        }
    }

    fn unary(&mut self) -> Result<Expr, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return self.fail("less nesting");
        }
        let out = if self.eat("!") {
            Expr::Not(Box::new(self.unary()?))
        } else if self.eat("-") {
            Expr::Negate(Box::new(self.unary()?))
        } else if self.eat("(") {
            let inner = self.level(0)?;
            if !self.eat(")") {
                return self.fail("`)`");
            }
            inner
        } else {
            self.atom()?
        };
        self.depth -= 1;
        Ok(out)
    }

    fn atom(&mut self) -> Result<Expr, String> {
        let rest = self.rest();
        let first = rest.chars().next().unwrap_or(' ');
        if first.is_ascii_digit() || first == '.' {
            return self.number();
        }
        let in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
        let length = rest.find(|c| !in_name(c)).unwrap_or(rest.len());
        if length == 0 {
            return self.fail("a number or the name of a parameter");
        }
        let name = rest[..length].to_string();
        self.at += length;
        let function = match name.as_str() {
            "min" => Operator::Min,
            "max" => Operator::Max,
            _ => return Ok(Expr::Name(name)),
        };
        if !self.eat("(") {
            return self.fail("`(`");
        }
        let a = self.level(0)?;
        if !self.eat(",") {
            return self.fail("`,`");
        }
        let b = self.level(0)?;
        if !self.eat(")") {
            return self.fail("`)`");
        }
        Ok(Expr::Binary(function, Box::new(a), Box::new(b)))
    }

    fn number(&mut self) -> Result<Expr, String> {
        let rest = self.rest().to_string();
        let digits = rest
            .char_indices()
            .find(|&(i, c)| {
                let exponent =
                    matches!(c, 'e' | 'E') && rest[i + 1..].starts_with(|d: char| d.is_ascii_digit() || d == '-');
                let sign = c == '-' && rest[..i].ends_with(['e', 'E']);
                !(c.is_ascii_digit() || matches!(c, '.' | '_') || exponent || sign)
            })
            .map_or(rest.len(), |d| d.0);
        let value = rest[..digits].replace('_', "").parse::<f64>();
        let Ok(value) = value else { return self.fail("a number") };
        self.at += digits;
        let after = self.rest().to_string();
        let unit = after.find(|c: char| !(c.is_ascii_alphabetic() || c == '%')).unwrap_or(after.len());
        // `GB/s` is a unit, `GB / s` a division.
        let unit = if after[unit..].starts_with("/s") { unit + 2 } else { unit };
        let text = &after[..unit];
        if text.is_empty() {
            return Ok(Expr::Number(value));
        }
        let quantities = [
            Quantity::Bytes,
            Quantity::Bandwidth,
            Quantity::Hertz,
            Quantity::Seconds,
            Quantity::Cycles,
            Quantity::Share,
        ];
        let scale = quantities.iter().flat_map(|q| q.units()).find(|u| u.0 == text);
        let Some((_, scale)) = scale else { return self.fail("a unit, or nothing,") };
        self.at += unit;
        Ok(Expr::Number(value * scale))
    }
}

impl Expr {
    /// Reads an expression.
    ///
    /// # Errors
    /// What is expected where.
    pub fn parse(text: &str) -> Result<Expr, String> {
        let mut p = Parser { text, at: 0, depth: 0 };
        let e = p.level(0)?;
        if !p.rest().is_empty() {
            return p.fail("an operator or the end");
        }
        Ok(e)
    }

    /// The names in it.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Expr::Number(_) => Vec::new(),
            Expr::Name(n) => vec![n],
            Expr::Not(a) | Expr::Negate(a) => a.names(),
            Expr::Binary(_, a, b) => a.names().into_iter().chain(b.names()).collect(),
        }
    }

    /// Its value; `value` knows names.
    ///
    /// # Errors
    /// A name that has no value.
    pub fn eval(&self, value: &dyn Fn(&str) -> Option<f64>) -> Result<f64, String> {
        let truth = |b: bool| f64::from(u8::from(b));
        Ok(match self {
            Expr::Number(n) => *n,
            Expr::Name(n) => value(n).ok_or_else(|| format!("`{n}` has no value here"))?,
            Expr::Not(a) => truth(a.eval(value)? == 0.0),
            Expr::Negate(a) => -a.eval(value)?,
            Expr::Binary(op, a, b) => {
                let (a, b) = (a.eval(value)?, b.eval(value)?);
                match op {
                    Operator::Or => truth(a != 0.0 || b != 0.0),
                    Operator::And => truth(a != 0.0 && b != 0.0),
                    Operator::Less => truth(a < b),
                    Operator::AtMost => truth(a <= b),
                    Operator::Greater => truth(a > b),
                    Operator::AtLeast => truth(a >= b),
                    Operator::Equal => truth(a == b),
                    Operator::Differs => truth(a != b),
                    Operator::Add => a + b,
                    Operator::Subtract => a - b,
                    Operator::Multiply => a * b,
                    Operator::Divide => a / b,
                    Operator::Min => a.min(b),
                    Operator::Max => a.max(b),
                }
            }
        })
    }
}
