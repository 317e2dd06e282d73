package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// texts are the lines of a picture; it must be well-formed.
func texts(t *testing.T, svg string) (lines []string) {
	t.Helper()
	inText := false
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			inText = e.Name.Local == "text"
		case xml.EndElement:
			inText = false
		case xml.CharData:
			if inText {
				lines = append(lines, string(e))
			}
		}
	}
}

func TestDraw(t *testing.T) {
	var b strings.Builder
	if err := draw(strings.NewReader("$ say <hello> & \"bye\"  \n\n\t12 left\n"), &b); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(texts(t, b.String()), "|"); got != `$ say <hello> & "bye"|    12 left` {
		t.Errorf("the picture says %q", got)
	}
	if !strings.Contains(b.String(), `fill="#8fd68a"`) {
		t.Error("what was typed looks like the rest")
	}
}

// The picture in the README is of the replay.
func TestThePicture(t *testing.T) {
	svg, err := os.ReadFile("../../../docs/replay.svg")
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(texts(t, string(svg)), "\n")
	for _, want := range []string{"$ ackledger replay --source", "replayed", "succeeded already"} {
		if !strings.Contains(all, want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
}
