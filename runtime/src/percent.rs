//! Shares in percent, as pages write them.

/// Appends a number as `{:.1} %` writes it: pages have a hundred of them, and in general that takes a thousand instructions.
pub fn push_percent(text: &mut String, x: f64) {
    let scaled = x * 10.0;
    let whole = scaled as u64;
    let rest = scaled - whole as f64;
    // Of such numbers the product is off by less than a billionth: which way a number is rounded is certain unless it is as near to the
    // middle between two.
    if x.is_sign_negative() || !(0.0..1e6).contains(&x) || (rest - 0.5).abs() < 1e-6 {
        *text += &format!("{x:.1} %");
        return;
    }
    let mut left = whole + u64::from(rest > 0.5);
    let mut digits = *b"00000000.0 %";
    let mut next = || {
        let digit = b'0' + (left % 10) as u8;
        left /= 10;
        (digit, left == 0)
    };
    digits[9] = next().0;
    let first = (0..8).rev().find(|at| {
        let (digit, last) = next();
        digits[*at] = digit;
        last
    });
    *text += str::from_utf8(&digits[first.unwrap_or(0)..]).unwrap_or_default();
}

/// Appends names with their shares in percent, `hbm 12.5 %, mxu 3.0 %`.
pub fn push_shares<'a>(text: &mut String, shares: impl Iterator<Item = (&'a str, f64)>) {
    for (i, (name, share)) in shares.enumerate() {
        *text += if i == 0 { "" } else { ", " };
        *text += name;
        text.push(' ');
        push_percent(text, share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_written_as_by_the_library() {
        let mut numbers = vec![0.0, -0.0, 0.05, 0.15, 0.25, 0.35, 99.95, 100.0, 999_999.95, 1e6, 1e30, -3.25, f64::NAN];
        numbers.extend((0..4000).map(|i| f64::from(i) / 40.0));
        numbers.extend((0..4000).map(|i| 100.0 * f64::from(i * 7919 % 4001) / 4001.0));
        numbers.extend((0..500).map(|i| (f64::from(i) / 20.0).next_up()));
        numbers.extend((0..500).map(|i| (f64::from(i) / 20.0).next_down()));
        for x in numbers {
            let mut text = String::new();
            push_percent(&mut text, x);
            assert_eq!(text, format!("{x:.1} %"));
        }
    }
}
