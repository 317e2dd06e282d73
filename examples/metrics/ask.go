package main

import (
	"bufio"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// askOneself prints some of what Prometheus would get, for the demonstration: no counters at zero.
func askOneself(url string) {
	answer, err := http.Get(url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	label := regexp.MustCompile(`[{,](kind|state)="[^"]*"`)
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		line := lines.Text()
		name, _, _ := strings.Cut(line, "{")
		if strings.HasSuffix(name, "_total") && strings.HasSuffix(line, " 0") {
			continue
		}
		switch name {
		case "ackledger_retries_total", "ackledger_dead_letters_total", "ackledger_ledger_messages":
			words := []string{name, strings.Trim(label.FindString(line), "{,"), line[strings.LastIndexByte(line, ' ')+1:]}
			fmt.Println(strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " "))
		}
	}
}
