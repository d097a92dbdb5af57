//! What a price or a commitment is for: the model of a GPU, and the profile of a MIG instance.

use super::table::Table;
use crate::bill::prices::ANY;

/// Reads the keys `gpu_model` and `mig_profile`: the model of the whole GPU, empty if it is at fault, and the profile. `gpu_model` may also
/// name an instance as the driver does: its GPU's model, `MIG`, and its profile. Where `any`, `*` may stand for either.
pub fn device(table: &Table<'_>, any: bool) -> (String, Option<String>) {
    let expected =
        if any { "the driver's whole name of a model, or \"*\"" } else { "the driver's whole name of a model" };
    let Some(name) = table.needed_text("gpu_model", expected) else {
        table.text("mig_profile");
        return (String::new(), None);
    };
    let (model, named) = match name.rsplit_once(" MIG ") {
        Some((model, profile)) => (model.to_owned(), Some(profile.to_owned())),
        None => (name.clone(), None),
    };
    let is_model =
        |model: &str| !model.is_empty() && model.trim() == model && !model.contains(" MIG ") && !model.contains('*');
    let is_known = (any && model == ANY) || is_model(&model);
    if !is_known || named.as_deref().is_some_and(|profile| !is_profile(profile, any)) {
        table.wrong("gpu_model", expected);
        return (String::new(), None);
    }
    let Some(profile) = table.text("mig_profile") else { return (model, named) };
    if !is_profile(&profile, any) {
        let any = if any { ", or \"*\"" } else { "" };
        table.wrong("mig_profile", &format!("a profile such as \"3g.40gb\"{any}"));
    } else if let Some(named) = named.filter(|named| *named != profile) {
        table.wrong("mig_profile", &format!("{named:?}, which gpu_model names, or nothing"));
    }
    (model, Some(profile))
}

/// Whether it has the shape of a profile: `1g.10gb`, `1g.10gb+me`, `1c.3g.20gb`.
fn is_profile(text: &str, any: bool) -> bool {
    let is_sign = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".+-_".contains(&byte);
    let shaped = text.starts_with(|first: char| first.is_ascii_digit()) && text.contains("g.");
    (any && text == ANY) || (shaped && text.bytes().all(is_sign))
}
