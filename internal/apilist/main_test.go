package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestTheListOfTheAPIIsThatOfTheSources(t *testing.T) {
	text, err := list("../..")
	if err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile("../../docs/api.txt")
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.Split(string(golden), "\n"), strings.Split(string(text), "\n")
	for _, l := range was {
		if !slices.Contains(is, l) {
			t.Errorf("gone or changed: %s", l)
		}
	}
	for _, l := range is {
		if !slices.Contains(was, l) {
			t.Errorf("new: %s", l)
		}
	}
	if t.Failed() {
		t.Log("`make api` writes docs/api.txt anew, for review to see")
	}
}
