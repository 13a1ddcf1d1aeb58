//! Quantities as chip files and overrides write them: a number, or text with a unit (`"819 GB/s"`, `500ns`).

/// What a parameter measures: decides which units it takes and whether it must be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Any text.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A whole number.
    Count,
    /// Whole clock cycles.
    Cycles,
    /// Whole bytes.
    Bytes,
    /// Cycles per second.
    Hertz,
    /// Bytes per second.
    Bandwidth,
    /// A time.
    Seconds,
    /// A plain real number.
    Rate,
    /// A share of one.
    Share,
}

const BYTES: &[(&str, f64)] = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
    ("TiB", 1099511627776.0),
];
const BANDWIDTH: &[(&str, f64)] = &[
    ("B/s", 1.0),
    ("kB/s", 1e3),
    ("MB/s", 1e6),
    ("GB/s", 1e9),
    ("TB/s", 1e12),
    ("KiB/s", 1024.0),
    ("MiB/s", 1048576.0),
    ("GiB/s", 1073741824.0),
    ("TiB/s", 1099511627776.0),
];
const HERTZ: &[(&str, f64)] = &[("Hz", 1.0), ("kHz", 1e3), ("MHz", 1e6), ("GHz", 1e9)];
const SECONDS: &[(&str, f64)] = &[("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("ps", 1e-12)];
const CYCLES: &[(&str, f64)] = &[("cycles", 1.0), ("cycle", 1.0)];
const SHARE: &[(&str, f64)] = &[("%", 1e-2)];

impl Quantity {
    /// Units that a number may carry, with what one of them is in the base unit.
    pub fn units(self) -> &'static [(&'static str, f64)] {
        match self {
            Quantity::Bytes => BYTES,
            Quantity::Bandwidth => BANDWIDTH,
            Quantity::Hertz => HERTZ,
            Quantity::Seconds => SECONDS,
            Quantity::Cycles => CYCLES,
            Quantity::Share => SHARE,
            Quantity::Text | Quantity::Choice(_) | Quantity::Count | Quantity::Rate => &[],
        }
    }

    /// Whether values are whole numbers of the base unit.
    pub fn is_whole(self) -> bool {
        matches!(self, Quantity::Count | Quantity::Cycles | Quantity::Bytes)
    }

    /// Whether a number says nothing without a unit: nobody can tell whether `1600` of bandwidth are bytes or gigabytes.
    /// Sizes may be whole bytes, as their keys say.
    pub fn needs_unit(self) -> bool {
        matches!(self, Quantity::Bandwidth | Quantity::Hertz | Quantity::Seconds)
    }

    /// Whether values are words rather than numbers.
    pub fn is_text(self) -> bool {
        matches!(self, Quantity::Text | Quantity::Choice(_))
    }

    /// What is accepted, in words.
    pub fn describe(self) -> String {
        match self {
            Quantity::Text => "a text".into(),
            Quantity::Choice(words) => format!("one of {}", words.join(", ")),
            Quantity::Count => "a whole number".into(),
            Quantity::Cycles => "a whole number of cycles".into(),
            Quantity::Rate => "a number".into(),
            Quantity::Share => "a share of one (`0.9` or `90%`)".into(),
            Quantity::Bytes => "a size (`32 MiB`, `16 GB` or whole bytes)".into(),
            Quantity::Bandwidth => "a bandwidth with its unit (`819 GB/s`, `1.6 TB/s`)".into(),
            Quantity::Hertz => "a frequency with its unit (`1.5 GHz`, `940 MHz`)".into(),
            Quantity::Seconds => "a time with its unit (`500 ns`, `1 us`)".into(),
        }
    }

    /// Reads a number with its unit, in the base unit. `None` if it is no such thing, or a number other than 0 without the
    /// unit that it needs. Case does not matter but for the `b` of bandwidths,
    /// which would be bits.
    pub fn parse(self, text: &str) -> Option<f64> {
        let text = text.trim();
        let split = text
            .char_indices()
            .find(|&(i, c)| {
                let exponent = matches!(c, 'e' | 'E')
                    && text[i + 1..].starts_with(|d: char| d.is_ascii_digit() || d == '-' || d == '+');
                let sign = matches!(c, '+' | '-') && (i == 0 || text[..i].ends_with(['e', 'E']));
                !(c.is_ascii_digit() || c == '.' || c == '_' || exponent || sign)
            })
            .map_or(text.len(), |(i, _)| i);
        let number: f64 = text[..split].replace('_', "").parse().ok()?;
        let unit = text[split..].trim();
        let scale = if unit.is_empty() {
            if self.needs_unit() && number != 0.0 {
                return None;
            }
            1.0
        } else {
            let units = self.units();
            let bits = |unit: &str| self == Quantity::Bandwidth && unit.contains('b');
            let exact = units.iter().find(|u| u.0 == unit);
            exact.or_else(|| units.iter().find(|u| u.0.eq_ignore_ascii_case(unit) && !bits(unit)))?.1
        };
        // Decimal fractions of a power of ten are divided, so that `500 ns` is the double nearest to 5e-7.
        Some(if scale < 1.0 { number / (1.0 / scale).round() } else { number * scale })
    }

    /// Prints a value with the unit that makes it shortest.
    pub fn print(self, value: f64) -> String {
        // Whole numbers are printed faster as such.
        let whole = value as u32;
        let mut best = if f64::from(whole) == value && value > 0.0 { whole.to_string() } else { format!("{value}") };
        for &(unit, scale) in self.units() {
            let scaled = if scale < 1.0 { value * (1.0 / scale).round() } else { value / scale };
            if unit == "cycle" || !(1.0..10000.0).contains(&scaled) {
                continue;
            }
            // Twelve digits hide the rounding of the division. Whole numbers have none.
            let number = if scaled.fract() == 0.0 {
                (scaled as u32).to_string()
            } else {
                format!("{scaled:.12}").trim_end_matches('0').trim_end_matches('.').to_string()
            };
            let text = if self == Quantity::Share { format!("{number}{unit}") } else { format!("{number} {unit}") };
            if text.len() < best.len() || !best.contains(' ') {
                best = text;
            }
        }
        best
    }
}
