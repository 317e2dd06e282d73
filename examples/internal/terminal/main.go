// Command terminal draws what a program has printed as a picture of a terminal, in SVG, which browsers and code hosts show
// and people can search:
//
//	go build -o bin/ackledger ./cmd/ackledger
//	go run ./examples/replay -command bin/ackledger | go run ./examples/internal/terminal > docs/replay.svg
//
// Lines that begin with "$ " are drawn as what somebody has typed.
package main

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// The geometry, in pixels.
const (
	charWidth  = 7.8
	lineHeight = 19
	margin     = 18
	titleBar   = 30
	minColumns = 80
)

func main() {
	if err := draw(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "terminal:", err)
		os.Exit(1)
	}
}

// draw reads text and writes the picture.
func draw(in io.Reader, out io.Writer) error {
	var lines []string
	columns := minColumns
	scan := bufio.NewScanner(in)
	for scan.Scan() {
		line := strings.ReplaceAll(strings.TrimRight(scan.Text(), " "), "\t", "    ")
		lines = append(lines, line)
		columns = max(columns, utf8.RuneCountInString(line))
	}
	if err := scan.Err(); err != nil {
		return err
	}
	width, height := int(float64(columns)*charWidth)+2*margin, titleBar+len(lines)*lineHeight+margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#1b1f27"/>`+"\n", width, height)
	for i, colour := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="6" fill="%s"/>`+"\n", margin+4+i*20, titleBar/2+1, colour)
	}
	b.WriteString(`<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13" fill="#d5dae3" xml:space="preserve">` + "\n")
	for i, line := range lines {
		if line == "" {
			continue
		}
		style := ""
		if strings.HasPrefix(line, "$ ") {
			style = ` fill="#8fd68a" font-weight="bold"`
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d"%s>`, margin, titleBar+(i+1)*lineHeight-4, style)
		if err := xml.EscapeText(&b, []byte(line)); err != nil {
			return err
		}
		b.WriteString("</text>\n")
	}
	b.WriteString("</g>\n</svg>\n")
	_, err := io.WriteString(out, b.String())
	return err
}
