package report_test

import (
	"fmt"

	"github.com/ackledger/ackledger/bench/internal/report"
)

func ExampleNumber() {
	fmt.Println(report.Number(1234567.8), report.Number(0.834))
	// Output: 1,234,568 0.83
}
