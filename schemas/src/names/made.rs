//! What the agent makes of what it read: the ledger, what devices and owners are, events, latencies, and how it is itself.

use super::*;

registry! { MADE
    LEDGER_HELD "contador.ledger.held" "ms" Delta Ledger "How long the owner held any part of the device in the minute." []
    LEDGER_SHARE "contador.ledger.share" "ms" Delta Ledger "The owner's part of the minute; over the owners of a GPU and of its MIG instances, 60,000." []
    LEDGER_BUSY "contador.ledger.busy" "ms" Delta Ledger "The owner's part of the time in which the device was busy." []
    LEDGER_MEMORY "contador.ledger.memory" "MiBy.ms" Delta Ledger "Memory held by the owner, times time." []
    LEDGER_ENERGY "contador.ledger.energy" "mJ" Delta Ledger "The owner's part of the energy that the device drew." []
    LEDGER_IDLE "contador.ledger.idle" "ms" Delta Ledger "Of the time held, how long the device had no work: its utilisation was known, and 0." []
    LEDGER_REQUESTS "contador.ledger.requests" "{request}" Delta Ledger "Requests that the owner served on the device." []
    DEVICE_INFO "contador.device.info" "1" Gauge Info "Always 1; its attributes are what the device is." []
    OWNER_INFO "contador.owner.info" "1" Gauge Info "Always 1; its attributes are what an owner id means." []
    EVENT "contador.event" "{event}" Delta Info "Always 1; its attributes are what happened." []
    LATENCY "contador.latency" "us" Histogram Latency "Latencies that were pushed to an agent, or that it scraped; attribute contador.latency.metric says what was timed." []
    SERVED_REQUESTS "contador.served.requests" "{request}" Delta Served "Requests that a service answered to their end." []
    SERVED_ABORTED "contador.served.aborted" "{request}" Delta Served "Requests to a service that ended before they were answered." []
    SERVED_TOKENS "contador.served.tokens" "{token}" Delta Served "Tokens that a service read and generated; attribute gen_ai.token.type says which: input or output." []
    SENSOR_STUCK "contador.sensor.stuck_seconds" "s" Gauge Series "How long a sensor has not answered; 0 while it answers." []
    SENSOR_AGE "contador.sensor.age" "s" Gauge Series "Time since a sensor's last answer." []
}
