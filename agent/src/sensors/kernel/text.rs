//! Numbers and words in the kernel's text, which is bytes: names of files are in it.

/// A whole number of digits only; `None` for anything else, and for what does not fit.
pub fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() || word.len() > 20 {
        return None;
    }
    word.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// The lines, without their ends.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
}

/// What is between blanks and tabs.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty())
}

/// `8:16`, the number of a device.
pub fn device(word: &[u8]) -> Option<(u32, u32)> {
    let colon = word.iter().position(|byte| *byte == b':')?;
    let part = |bytes: Option<&[u8]>| u32::try_from(number(bytes?)?).ok();
    Some((part(word.get(..colon))?, part(word.get(colon + 1..))?))
}

/// A word in which the kernel has written blanks, tabs, line ends and backslashes as `\040` and the like.
pub fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, after)) = rest.split_first() {
        let octal = (*first == b'\\').then(|| after.get(..3)).flatten().and_then(|digits| {
            digits.iter().try_fold(0_u32, |value, digit| {
                let digit = digit.checked_sub(b'0').filter(|digit| *digit <= 7)?;
                Some(value * 8 + u32::from(digit))
            })
        });
        match octal.and_then(|value| u8::try_from(value).ok()) {
            Some(byte) => {
                text.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                text.push(*first);
                rest = after;
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_and_fit() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for wrong in [&b""[..], b"18446744073709551616", b"-1", b"+1", b"1 ", b"0x1", b"000000000000000000001"] {
            assert_eq!(number(wrong), None, "{}", String::from_utf8_lossy(wrong));
        }
        assert_eq!(device(b"259:12"), Some((259, 12)));
        for wrong in [&b"(unknown)"[..], b"8", b"8:", b":1", b"8:1:2", b"4294967296:0"] {
            assert_eq!(device(wrong), None);
        }
    }

    #[test]
    fn escapes_are_octal() {
        assert_eq!(unescaped(br"/mnt/a\040b\134c\011"), b"/mnt/a b\\c\t");
        assert_eq!(unescaped(br"\04 \999 \777\"), br"\04 \999 \777\");
    }
}
