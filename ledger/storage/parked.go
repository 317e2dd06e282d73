package storage

import "time"

// Behind is when a parked message is due that waits behind others of its lane: see [ledger.ParkLane].
var Behind = time.Date(9999, time.December, 30, 0, 0, 0, 0, time.UTC)
