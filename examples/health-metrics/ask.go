package main

import (
	"bufio"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// askOneself prints what the endpoints say, for the demonstration.
func askOneself(base string) {
	for _, path := range []string{"/livez", "/readyz"} {
		answer, err := http.Get(base + path)
		if err != nil {
			fmt.Println(path, err)
			continue
		}
		_ = answer.Body.Close()
		fmt.Println(path, answer.Status)
	}
	answer, err := http.Get(base + "/metrics")
	if err != nil {
		fmt.Println("/metrics", err)
		return
	}
	defer answer.Body.Close()
	labels := regexp.MustCompile(`\{.*\}`)
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		line := lines.Text()
		if strings.HasSuffix(line, " 0") {
			continue // a counter that nothing was counted on
		}
		if strings.HasPrefix(line, "ackledger_claims_total") || strings.HasPrefix(line, "ackledger_handler_duration_seconds_count") {
			fmt.Println("/metrics", labels.ReplaceAllString(line, ""))
		}
	}
}
