package plan_test

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/ackledger/ackledger/integration/http/plan"
)

// A process reads what its test has ordered.
func ExampleRead() {
	variable, err := (&plan.Orders{Name: "first", Store: "sqlite", Lease: time.Second}).Environment()
	if err != nil {
		panic(err)
	}
	name, text, _ := strings.Cut(variable, "=")
	if err := os.Setenv(name, text); err != nil {
		panic(err)
	}
	o, err := plan.Read()
	fmt.Println(o.Name, o.Store, o.Lease, err)
	// Output: first sqlite 1s <nil>
}
