//! Dictionaries of attributes as HLO text writes them: `{key="text with \"escapes\"",other={..},last=7}`.

/// The entries, quotes and escapes of their values undone. What is no entry ends the list.
pub fn entries(dictionary: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let whole = dictionary.trim();
    let mut rest = whole.strip_prefix('{').unwrap_or(whole);
    while let Some((key, behind)) = rest.split_once('=') {
        let key = key.trim_matches(|c: char| c.is_whitespace() || c == ',' || c == '"');
        let Some((value, after)) = value(behind.trim_start()) else { break };
        out.push((key.to_string(), value));
        rest = after;
    }
    out
}

/// The value of `key`, its quotes and escapes undone.
pub fn entry(dictionary: &str, key: &str) -> Option<String> {
    entries(dictionary).into_iter().find_map(|(k, v)| (k == key).then_some(v))
}

/// A dictionary of quoted values.
pub fn written<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let quoted = |v: &str| v.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let all: Vec<String> = entries.into_iter().map(|(k, v)| format!("{k}=\"{}\"", quoted(v))).collect();
    format!("{{{}}}", all.join(","))
}

/// The value that text begins with, and what stands behind it.
fn value(text: &str) -> Option<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let mut out = String::new();
        let mut chars = quoted.chars();
        while let Some(c) = chars.next() {
            match c {
                '"' => return Some((out, chars.as_str())),
                '\\' => out.extend(chars.next().map(|c| if c == 'n' { '\n' } else { c })),
                c => out.push(c),
            }
        }
        return None;
    }
    let mut depth = 0;
    for (i, c) in text.char_indices() {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' | ',' if depth == 0 => return Some((text[..i].to_string(), &text[i..])),
            '}' | ']' | ')' => depth -= 1,
            _ => {}
        }
    }
    Some((text.to_string(), ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found() {
        let text = r##"{xla.sdy.sharding="#sdy.sharding<@mesh, [{\"d\"}]>",other={a=1, b},last=7}"##;
        assert_eq!(entry(text, "xla.sdy.sharding").as_deref(), Some(r##"#sdy.sharding<@mesh, [{"d"}]>"##));
        assert_eq!(entry(text, "other").as_deref(), Some("{a=1, b}"));
        assert_eq!(entry(text, "last").as_deref(), Some("7"));
        assert_eq!(entry(text, "sharding"), None);
        assert_eq!(entry(r#"{text="x=1, key=2"}"#, "key"), None);
    }

    #[test]
    fn what_is_written_is_read() {
        let all = [("kernel_metadata", "{\n\"mesh_axes\":\"[\\\"x\\\"]\"\n}"), ("b", "")];
        let read = entries(&written(all));
        assert_eq!(read, all.map(|(k, v)| (k.to_string(), v.to_string())));
    }
}
