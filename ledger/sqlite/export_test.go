package sqlite

import (
	"database/sql/driver"
	"time"
)

// Break sets where tests break things: pragmas of the connections to the main file, the connector of InTx, and the
// bound of fence, COMMIT and the reading of its result. Zero values break nothing.
func (c *Config) Break(pragma []string, wrapTx func(driver.Connector) driver.Connector, settle time.Duration) *Config {
	c.hooks = hooks{pragma: pragma, wrapTx: wrapTx, settle: settle}
	return c
}

// SchemaVersion is the schema that this program knows.
const SchemaVersion = schemaVersion
