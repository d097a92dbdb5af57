//! Places of owners in their order, so that many facts of few owners are sorted without comparing the owners' attributes each time.

use std::collections::HashMap;
use std::sync::Arc;

use contador_schemas::owner::Owner;

/// The place of each owner among those that were ranked; equal ones have the same.
#[derive(Clone, Debug, Default)]
pub struct Ranks {
    /// By address: the owners live as long as the facts or keys that are sorted.
    places: HashMap<usize, u32>,
}

impl Ranks {
    /// Ranks owners.
    pub fn of<'a>(owners: impl Iterator<Item = &'a Arc<Owner>>) -> Self {
        let distinct: HashMap<usize, &Owner> = owners.map(|owner| (address(owner), owner.as_ref())).collect();
        let mut sorted: Vec<(usize, &Owner)> = distinct.into_iter().collect();
        sorted.sort_by_key(|(_, owner)| *owner);
        let mut places = HashMap::with_capacity(sorted.len());
        let (mut place, mut last) = (0, None);
        for (address, owner) in sorted {
            place += u32::from(last.is_some_and(|last| last != owner));
            last = Some(owner);
            places.insert(address, place);
        }
        Self { places }
    }

    /// The place of one of them.
    pub fn place(&self, owner: &Arc<Owner>) -> u32 {
        self.places.get(&address(owner)).copied().unwrap_or(u32::MAX)
    }
}

fn address(owner: &Arc<Owner>) -> usize {
    Arc::as_ptr(owner).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_the_order_of_owners_and_equal_for_equal_ones() {
        let owner = |project: &str| Arc::new(Owner { project: project.to_owned(), ..Owner::default() });
        let owners = [owner("b"), owner("a"), owner("c"), owner("a"), owner("")];
        let ranks = Ranks::of(owners.iter().chain(&owners));
        assert_eq!(owners.each_ref().map(|owner| ranks.place(owner)), [2, 1, 3, 1, 0]);
    }
}
