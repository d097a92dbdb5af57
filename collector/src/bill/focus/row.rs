//! One charge as FOCUS 1.2 has it. Each field is named with its column, so that a row and a file cannot differ.

use num_bigint::BigInt;

use super::columns::{Column, Level, column};
use super::value::{
    ChargeCategory, ChargeClass, ChargeFrequency, CommitmentCategory, ConsumptionModel, PricingCategory, Properties,
    Reserved, ServiceCategory, ServiceSubcategory, Time, Trillionths,
};
use crate::bill::decimal::Millionths;

/// Declares [`Row`] and, field by field, the columns of a file.
macro_rules! row {
    ($($(#[$doc:meta])* $name:literal $level:ident $field:ident: $type:ty,)*) => {
        /// One charge. Costs are in millionths of the billing currency, prices and quantities in `10^-12`.
        #[derive(Clone, Debug, Default, Eq, PartialEq)]
        pub struct Row {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Row {
            /// The columns that have a field.
            pub(super) const FIELDS: &[Column] = &[$(column!($name, $level, $type, $field),)*];
        }
    };
}

row! {
    /// Who the invoice is for.
    "BillingAccountId" Mandatory billing_account_id: String,
    /// Its name.
    "BillingAccountName" Mandatory billing_account_name: String,
    /// What it is, such as an organisation.
    "BillingAccountType" Conditional billing_account_type: String,
    /// ISO 4217.
    "BillingCurrency" Mandatory billing_currency: String,
    /// First instant of the month that is billed.
    "BillingPeriodStart" Mandatory billing_period_start: Time,
    /// First instant of the month after.
    "BillingPeriodEnd" Mandatory billing_period_end: Time,
    /// The department, or who else the charge is allotted to.
    "SubAccountId" Conditional sub_account_id: Option<String>,
    /// Its name.
    "SubAccountName" Conditional sub_account_name: Option<String>,
    /// What it is, such as a department.
    "SubAccountType" Conditional sub_account_type: Option<String>,
    /// The invoice that the charge is on.
    "InvoiceId" Recommended invoice_id: Option<String>,
    /// Who writes the invoice.
    "InvoiceIssuerName" Mandatory invoice_issuer_name: String,
    /// Whose GPUs they are.
    "ProviderName" Mandatory provider_name: String,
    /// Who offers the service.
    "PublisherName" Mandatory publisher_name: String,
    /// The nature of the charge.
    "ChargeCategory" Mandatory charge_category: ChargeCategory,
    /// Whether it corrects a closed month.
    "ChargeClass" Mandatory charge_class: Option<ChargeClass>,
    /// What it is for, in words.
    "ChargeDescription" Mandatory charge_description: String,
    /// How often it comes.
    "ChargeFrequency" Recommended charge_frequency: ChargeFrequency,
    /// From when it is for.
    "ChargePeriodStart" Mandatory charge_period_start: Time,
    /// Until when, exclusive.
    "ChargePeriodEnd" Mandatory charge_period_end: Time,
    /// What is to be paid.
    "BilledCost" Mandatory billed_cost: Millionths,
    /// The same with commitments spread over what they cover.
    "EffectiveCost" Mandatory effective_cost: Millionths,
    /// At the list price.
    "ListCost" Mandatory list_cost: Millionths,
    /// Without discounts.
    "ListUnitPrice" Conditional list_unit_price: Option<Trillionths>,
    /// At the price agreed on.
    "ContractedCost" Mandatory contracted_cost: Millionths,
    /// Agreed on, without what commitments save.
    "ContractedUnitPrice" Conditional contracted_unit_price: Option<Trillionths>,
    /// How it is priced.
    "PricingCategory" Conditional pricing_category: Option<PricingCategory>,
    /// How many of the unit are priced.
    "PricingQuantity" Mandatory pricing_quantity: Option<Trillionths>,
    /// Such as `GPU-Hours`.
    "PricingUnit" Mandatory pricing_unit: Option<String>,
    /// How many of the unit were used.
    "ConsumedQuantity" Conditional consumed_quantity: Option<Trillionths>,
    /// Such as `GPU-Hours`.
    "ConsumedUnit" Conditional consumed_unit: Option<String>,
    /// The commitment that covers the charge, or is bought by it.
    "CommitmentDiscountId" Conditional commitment_id: Option<String>,
    /// Its name.
    "CommitmentDiscountName" Conditional commitment_name: Option<String>,
    /// What it is about.
    "CommitmentDiscountCategory" Conditional commitment_category: Option<CommitmentCategory>,
    /// What kind it is, such as a reservation.
    "CommitmentDiscountType" Conditional commitment_type: Option<String>,
    /// Whether this part of it was used.
    "CommitmentDiscountStatus" Conditional commitment_status: Option<Reserved>,
    /// How much of it was bought, used or left.
    "CommitmentDiscountQuantity" Conditional commitment_quantity: Option<Trillionths>,
    /// Such as `GPU-Hours`.
    "CommitmentDiscountUnit" Conditional commitment_unit: Option<String>,
    /// The reservation of GPUs.
    "CapacityReservationId" Conditional reservation_id: Option<String>,
    /// Whether this part of it was used.
    "CapacityReservationStatus" Conditional reservation_status: Option<Reserved>,
    /// The GPU, the node or the commitment.
    "ResourceId" Conditional resource_id: Option<String>,
    /// Its name.
    "ResourceName" Conditional resource_name: Option<String>,
    /// What it is, such as a GPU.
    "ResourceType" Conditional resource_type: Option<String>,
    /// Where it is.
    "RegionId" Conditional region_id: Option<String>,
    /// Its name.
    "RegionName" Conditional region_name: Option<String>,
    /// Where more exactly.
    "AvailabilityZone" Recommended availability_zone: Option<String>,
    /// What is offered.
    "ServiceName" Mandatory service_name: String,
    /// Of which kind.
    "ServiceCategory" Mandatory service_category: ServiceCategory,
    /// Of which more finely.
    "ServiceSubcategory" Recommended service_subcategory: ServiceSubcategory,
    /// What is priced, such as a GPU model.
    "SkuId" Conditional sku_id: Option<String>,
    /// What of it is metered.
    "SkuMeter" Conditional sku_meter: Option<String>,
    /// Its price.
    "SkuPriceId" Conditional sku_price_id: Option<String>,
    /// Properties of the price, whose names start with `x_`.
    "SkuPriceDetails" Conditional sku_price_details: Option<Properties>,
    /// Labels of whoever used it.
    "Tags" Conditional tags: Option<Properties>,
    /// Who pays.
    "x_Department" Own department: Option<String>,
    /// Where that is booked.
    "x_CostCentre" Own cost_centre: Option<String>,
    /// What for.
    "x_Project" Own project: Option<String>,
    /// What for more exactly.
    "x_Experiment" Own experiment: Option<String>,
    /// By whom.
    "x_User" Own user: Option<String>,
    /// The service that ran.
    "x_Service" Own service: Option<String>,
    /// Such as `prod`.
    "x_Environment" Own environment: Option<String>,
    /// As the driver names it.
    "x_GpuModel" Own gpu_model: Option<String>,
    /// Such as `3g.40gb`.
    "x_MigProfile" Own mig_profile: Option<String>,
    /// How it was had.
    "x_ConsumptionModel" Own consumption_model: Option<ConsumptionModel>,
    /// The closed month that is corrected, such as `2026-09`.
    "x_OriginMonth" Own origin_month: Option<String>,
    /// Whether the charge was made up for a demonstration.
    "x_Simulated" Own simulated: bool,
    /// Energy, in kilowatt-hours.
    "x_EnergyKwh" Own energy_kwh: Option<Millionths>,
    /// Carbon, in grams of CO2 equivalent.
    "x_Gco2e" Own gco2e: Option<Millionths>,
}

impl Row {
    /// Whether it corrects a closed month.
    pub fn is_correction(&self) -> bool {
        self.charge_class.is_some()
    }
}

/// An id that is unique beyond this program, and that no reader of CSV takes for a number: `contador:invoice/202610`.
pub fn qualified(of: &str, id: &str) -> String {
    format!("contador:{of}/{id}")
}

/// What a quantity costs at a price: the product, exactly, rounded half away from zero to a millionth.
pub fn cost(price: Trillionths, quantity: Trillionths) -> Millionths {
    let exact = BigInt::from(price.0) * quantity.0;
    let half = BigInt::from(5) * BigInt::from(10).pow(17);
    let one = BigInt::from(10).pow(18);
    if exact.sign() == num_bigint::Sign::Minus {
        Millionths((exact - half) / one)
    } else {
        Millionths((exact + half) / one)
    }
}
