//! The words that FOCUS allows in a column, one enum a column.

use super::Field;
use crate::bill::parquet::{Cell, Kind};

/// An enum each of whose values is one of the texts that FOCUS allows in a column.
macro_rules! allowed {
    ($(#[$doc:meta])* $name:ident { $(#[$first_doc:meta])* $first:ident = $first_text:literal,
        $($(#[$value_doc:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
        pub enum $name {
            $(#[$first_doc])*
            #[default]
            $first,
            $($(#[$value_doc])* $value,)*
        }

        impl $name {
            /// All values.
            pub const ALL: &[Self] = &[Self::$first, $(Self::$value),*];

            /// Its text in files.
            pub const fn as_str(self) -> &'static str {
                match self { Self::$first => $first_text, $(Self::$value => $text,)* }
            }
        }

        impl Field for $name {
            const KIND: Kind = Kind::Text;
            const ALLOWED: &'static [&'static str] = &[$first_text, $($text),*];

            fn cell(&self) -> Cell {
                Cell::Text(self.as_str().to_owned())
            }

            fn read(text: &str) -> Result<Self, String> {
                let found = Self::ALL.iter().copied().find(|value| value.as_str() == text);
                found.ok_or_else(|| format!("one of {:?}", Self::ALLOWED))
            }
        }
    };
}

allowed! {
    /// The nature of a charge.
    ChargeCategory {
        /// For what was used, or reserved and left unused.
        Usage = "Usage",
        /// For a commitment, whether used or not.
        Purchase = "Purchase",
        /// A tax on other charges.
        Tax = "Tax",
        /// What is given back.
        Credit = "Credit",
        /// Anything else, such as the overhead of a platform.
        Adjustment = "Adjustment",
    }
}

allowed! {
    /// Whether a charge corrects one of a period that has been invoiced.
    ChargeClass {
        /// It does.
        Correction = "Correction",
    }
}

allowed! {
    /// How often a charge comes.
    ChargeFrequency {
        /// With every use.
        UsageBased = "Usage-Based",
        /// Each period.
        Recurring = "Recurring",
        /// Once.
        OneTime = "One-Time",
    }
}

allowed! {
    /// How a charge is priced.
    PricingCategory {
        /// At the agreed rate.
        Standard = "Standard",
        /// By a commitment.
        Committed = "Committed",
        /// At a rate that changes.
        Dynamic = "Dynamic",
        /// In another way.
        Other = "Other",
    }
}

allowed! {
    /// Whether a reserved quantity was used.
    Reserved {
        /// It was.
        Used = "Used",
        /// It was not.
        Unused = "Unused",
    }
}

allowed! {
    /// What a commitment is about.
    CommitmentCategory {
        /// A quantity.
        Usage = "Usage",
        /// An amount of money.
        Spend = "Spend",
    }
}

allowed! {
    /// The kind of a service; those of FOCUS that a bill of this program can have.
    ServiceCategory {
        /// GPUs, and their energy.
        Compute = "Compute",
        /// Disks and mounts.
        Storage = "Storage",
        /// Traffic.
        Networking = "Networking",
        /// Taxes, credits and overhead.
        Other = "Other",
    }
}

allowed! {
    /// The kind of a service more finely.
    ServiceSubcategory {
        /// GPUs.
        OtherCompute = "Other (Compute)",
        /// Mounted file systems.
        FileStorage = "File Storage",
        /// Block devices.
        BlockStorage = "Block Storage",
        /// Any other storage.
        OtherStorage = "Other (Storage)",
        /// Traffic.
        OtherNetworking = "Other (Networking)",
        /// Taxes, credits and overhead.
        OtherOther = "Other (Other)",
    }
}

impl ServiceSubcategory {
    /// The one category that it belongs to.
    pub const fn category(self) -> ServiceCategory {
        match self {
            Self::OtherCompute => ServiceCategory::Compute,
            Self::FileStorage | Self::BlockStorage | Self::OtherStorage => ServiceCategory::Storage,
            Self::OtherNetworking => ServiceCategory::Networking,
            Self::OtherOther => ServiceCategory::Other,
        }
    }
}

allowed! {
    /// How GPUs were had.
    ConsumptionModel {
        /// Whole, for one owner.
        Exclusive = "exclusive",
        /// Whole, for as long as it is held.
        TimeSharing = "time-sharing",
        /// A part of a GPU.
        Fraction = "fraction",
    }
}
