//! Ways through a kernel's items: the one place that knows which items have others inside.

use super::{Item, Kernel, VInst};

impl Item {
    /// The lists of items inside it, in the order of the text: a loop's body, both ways of a branch, head and body.
    pub fn regions(&self) -> impl DoubleEndedIterator<Item = &Vec<Item>> {
        let (first, second) = match self {
            Item::Loop(l) => (Some(&l.body), None),
            Item::If { then, otherwise, .. } => (Some(then), Some(otherwise)),
            Item::While { head, body, .. } => (Some(head), Some(body)),
            Item::Inst(_) | Item::Call { .. } | Item::Mark { .. } => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// [`Item::regions`], to be changed.
    pub fn regions_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Vec<Item>> {
        let (first, second) = match self {
            Item::Loop(l) => (Some(&mut l.body), None),
            Item::If { then, otherwise, .. } => (Some(then), Some(otherwise)),
            Item::While { head, body, .. } => (Some(head), Some(body)),
            Item::Inst(_) | Item::Call { .. } | Item::Mark { .. } => (None, None),
        };
        first.into_iter().chain(second)
    }

    /// Hands every item to `f`, in the order of the text, one before those inside it.
    pub fn each<'i>(items: &'i [Item], f: &mut dyn FnMut(&'i Item)) {
        for item in items {
            f(item);
            item.regions().for_each(|region| Item::each(region, f));
        }
    }

    /// [`Item::each`], to be changed.
    pub fn each_mut(items: &mut [Item], f: &mut dyn FnMut(&mut Item)) {
        for item in items {
            f(item);
            item.regions_mut().for_each(|region| Item::each_mut(region, f));
        }
    }

    /// Whether it calls a kernel, or an item inside it does.
    pub fn calls(&self) -> bool {
        matches!(self, Item::Call { .. }) || self.regions().flatten().any(Item::calls)
    }
}

impl Kernel {
    /// Hands every instruction to `f`, in the order of the text.
    pub fn each_instruction<'k>(&'k self, f: &mut dyn FnMut(&'k VInst)) {
        Item::each(&self.body, &mut |item| {
            if let Item::Inst(v) = item {
                f(v);
            }
        });
    }

    /// [`Kernel::each_instruction`], to be changed.
    pub fn each_instruction_mut(&mut self, f: &mut dyn FnMut(&mut VInst)) {
        Item::each_mut(&mut self.body, &mut |item| {
            if let Item::Inst(v) = item {
                f(v);
            }
        });
    }
}
