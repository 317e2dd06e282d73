package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// beginnings are the packages whose documentation begins with lines of an Example, behind its first paragraph.
var beginnings = []string{"consumer", "consumer/consumertest", "consumer/envelope", "consumer/envelope/zstd", "consumer/slogzap",
	"formats/cloudevents", "formats/registry", "formats/s3payload", "idempotency", "idempotency/canonical", "idempotency/httpkey",
	"idempotency/redisfilter", "idempotency/spills3", "idempotency/spillsql", "integration/wire", "kafka", "ledger", "ledger/driver",
	"ledger/driver/items", "ledger/driver/items/itemstest", "ledger/dynamodb", "ledger/dynamodb/dynamodbtest", "ledger/ledgertest", "ledger/memory",
	"ledger/postgres", "ledger/sqlite", "ledger/storage", "replay", "sqs", "sqs/lambdasqs", "sqs/sqstest", "web"}

// What a package's documentation shows first is compiled: each stanza of it stands in the package's examples, as it is.
func TestDocumentationBeginsWithLinesOfAnExample(t *testing.T) {
	for _, path := range beginnings {
		dir := filepath.Join("..", "..", filepath.FromSlash(path))
		doc, err := os.ReadFile(filepath.Join(dir, "doc.go"))
		if err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var compiled strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			compiled.WriteString(trimmed(string(text)))
		}
		block := firstBlock(string(doc))
		if block == "" {
			t.Errorf("%s shows nothing first", path)
		}
		for stanza := range strings.SplitSeq(block, "\n\n") {
			if !strings.Contains(compiled.String(), "\n"+trimmed(stanza)) {
				t.Errorf("%s shows what no example of it has:\n%s", path, stanza)
			}
		}
	}
}

// firstBlock is the code behind the first paragraph of a package's documentation.
func firstBlock(doc string) string {
	_, rest, _ := strings.Cut(doc, "\n//\n")
	var block []string
	for line := range strings.Lines(rest) {
		code, isCode := strings.CutPrefix(strings.TrimRight(line, "\n"), "//\t")
		if !isCode && line != "//\n" {
			break
		}
		block = append(block, code)
	}
	for i := range block {
		if block[i] == "//" {
			block[i] = ""
		}
	}
	return strings.Trim(strings.Join(block, "\n"), "\n")
}

// trimmed is a text whose lines have lost their indentation.
func trimmed(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}
