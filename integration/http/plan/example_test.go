package plan_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
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

// The route of a request follows from the seed and its number alone, and each route is drawn about as often as the others.
func TestPath(t *testing.T) {
	t.Parallel()
	drawn := map[string]int{}
	for n := range 3000 {
		path := plan.Path(7, n%6, n)
		if again := plan.Path(7, n%6, n); again != path {
			t.Fatalf("%s, and then %s", path, again)
		}
		name := fmt.Sprintf("%d-%d", n%6, n)
		route, found := strings.CutSuffix(path, name)
		if !found {
			t.Fatalf("%s does not end with %s", path, name)
		}
		drawn[route]++
	}
	for _, route := range []string{plan.Pay, plan.Outside, plan.Calls} {
		if drawn[route] < 800 {
			t.Errorf("of %v too few are of %s", drawn, route)
		}
	}
}
