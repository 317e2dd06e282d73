package archtest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/ackledger/ackledger"

// TestMain reads all sources, so that results are kept no longer than these: the tests ask `go list`, of which the cache of test results
// knows nothing.
func TestMain(m *testing.M) {
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			_, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// pkg is what `go list -json` says of a package.
type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

// listed is what it says of all packages. It takes as long for one as for all of them.
var listed = sync.OnceValues(func() (all []pkg, err error) {
	err = goList(func(d *json.Decoder) error {
		var p pkg
		if err := d.Decode(&p); err != nil {
			return err
		}
		all = append(all, p)
		return nil
	}, "-json=ImportPath,Imports,Deps", "./...")
	return all, err
})

// goList hands what `go list` writes to next, until that has nothing more.
func goList(next func(*json.Decoder) error, args ...string) error {
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list %v: %w", args, err)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); err == nil; {
		err = next(d)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// list returns all packages of the module.
func list(t *testing.T) []pkg {
	t.Helper()
	all, err := listed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// listOf returns one of them.
func listOf(t *testing.T, path string) pkg {
	t.Helper()
	all := list(t)
	i := slices.IndexFunc(all, func(p pkg) bool { return p.ImportPath == module+"/"+path })
	if i < 0 {
		t.Fatalf("there is no package %s", path)
	}
	return all[i]
}

// rel is a package's path inside the module; ok is false for another module's.
func rel(path string) (string, bool) {
	if path == module {
		return ".", true
	}
	return strings.CutPrefix(path, module+"/")
}

// standard says whether an import path is of the standard library: no dot in its first element.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func TestPurePackagesImportTheStandardLibraryOnly(t *testing.T) {
	for _, path := range []string{"ledger", "internal/backoff", "internal/locks", "internal/slots", "internal/visibility"} {
		for _, d := range listOf(t, path).Deps {
			if !standard(d) {
				t.Errorf("%s depends on %s", path, d)
			}
		}
	}
}

// What is below every store, and below every worker.
var (
	belowStores = []string{
		"ledger", "ledger/storage", "internal/acts", "internal/beats", "internal/checks", "internal/maintenance", "internal/ranges",
	}
	belowWorkers = []string{
		"ledger", "ledger/storage", "internal/checks", "internal/marks", "consumer", "internal/flow", "internal/adaptive", "internal/backoff", "internal/killpoint",
		"internal/slots",
	}
)

// layers says which packages of this module each package that users import may depend on.
var layers = map[string][]string{
	"ledger":                       {},
	"ledger/storage":               {"ledger", "internal/checks"},
	"ledger/driver":                belowStores,
	"ledger/memory":                slices.Concat(belowStores, []string{"ledger/driver"}),
	"ledger/driver/items":          slices.Concat(belowStores, []string{"ledger/driver"}),
	"ledger/dynamodb":              slices.Concat(belowStores, []string{"ledger/driver", "ledger/driver/items"}),
	"ledger/dynamodb/dynamodbtest": {},
	"ledger/sqlite":                slices.Concat(belowStores, []string{"ledger/driver", "internal/fencedsql"}),
	"ledger/postgres":              slices.Concat(belowStores, []string{"internal/fencedsql", "internal/backoff"}),
	"consumer":                     {"ledger", "internal/slots"},
	"consumer/slogzap":             {},
	"consumer/envelope":            {"ledger", "consumer", "internal/slots"},
	"internal/acts":                {"ledger"},
	"internal/backoff":             {},
	"internal/beats":               {"ledger", "internal/checks"},
	"internal/checks":              {"ledger"},
	"internal/maintenance":         {"ledger"},
	"internal/marks":               {"ledger"},
	"internal/operate":             {"ledger"},
	"internal/fencedsql":           {},
	"internal/ranges":              {"ledger", "ledger/storage", "internal/checks", "internal/maintenance"},
	"internal/killpoint":           {},
	"internal/locks":               {},
	"internal/slots":               {},
	"internal/visibility":          {},
	"internal/adaptive":            {},
	"internal/flow":                {"ledger", "internal/adaptive", "internal/backoff"},
	"internal/engine":              belowWorkers,
	"outbox":                       slices.Concat(belowWorkers, []string{"internal/engine"}),
	"replay":                       slices.Concat(belowWorkers, []string{"internal/engine", "internal/acts"}),
	"sqs":                          slices.Concat(belowWorkers, []string{"replay", "internal/engine", "internal/acts", "internal/visibility"}),
	"kafka":                        slices.Concat(belowWorkers, []string{"replay", "internal/engine", "internal/acts", "internal/locks", "internal/offsets"}),
	"web":                          slices.Concat(belowWorkers, []string{"replay", "internal/engine", "internal/acts", "internal/operate"}),
	"cmd/ackledger": slices.Concat(belowStores, belowWorkers, []string{
		"ledger/driver", "ledger/driver/items", "ledger/dynamodb", "ledger/postgres", "ledger/sqlite", "sqs", "kafka", "internal/locks", "internal/offsets", "replay",
		"internal/engine", "internal/fencedsql", "internal/visibility", "internal/operate", "web",
	}),
	"consumer/consumertest": slices.Concat(belowStores, belowWorkers, []string{"ledger/driver", "ledger/memory", "internal/engine"}),
}

func TestPackagesKeepTheirLayer(t *testing.T) {
	for name, allowed := range layers {
		for _, d := range listOf(t, name).Deps {
			r, ours := rel(d)
			sub := ours && strings.HasPrefix(r, name+"/")
			if ours && !sub && !slices.Contains(allowed, r) {
				t.Errorf("%s depends on %s", name, r)
			}
		}
	}
}

// foreign says which modules only some packages that users import may depend on.
var foreign = map[string][]string{
	"github.com/jackc/pgx":              {"ledger/postgres"},
	"modernc.org/sqlite":                {"ledger/sqlite"},
	"github.com/pressly/goose":          {"ledger/postgres", "ledger/sqlite"},
	"github.com/twmb/franz-go":          {"kafka"},
	"github.com/klauspost/compress":     {"kafka", "consumer/envelope/zstd"},
	"github.com/aws/aws-sdk-go-v2":      {"ledger/dynamodb", "sqs", "sqs/sqstest"},
	"github.com/Shopify/toxiproxy":      {},
	"github.com/anishathalye/porcupine": {},
	"github.com/spf13/cobra":            {},
	"pgregory.net/rapid":                {"ledger/ledgertest"},
	"go.uber.org/goleak":                {},
	"testing":                           {"ledger/ledgertest", "sqs/sqstest", "consumer/consumertest"},
}

// startsServers says of a package that it starts servers for tests, which alone import it.
func startsServers(path string) bool { return strings.HasPrefix(path+"/", "internal/services/") }

func TestHeavyAndTestDependenciesStayWhereTheyBelong(t *testing.T) {
	for _, p := range list(t) {
		r, _ := rel(p.ImportPath)
		if top, _, _ := strings.Cut(r, "/"); top == "examples" || top == "cmd" || startsServers(r) {
			continue
		}
		for prefix, allowed := range foreign {
			if slices.ContainsFunc(allowed, func(a string) bool { return r == a || strings.HasPrefix(r, a+"/") }) {
				continue
			}
			for _, d := range p.Deps {
				if d == prefix || strings.HasPrefix(d, prefix+"/") {
					t.Errorf("%s depends on %s", r, d)
				}
			}
		}
	}
}

func TestTestPackagesAreImportedByTestsAndExamplesAlone(t *testing.T) {
	for _, p := range list(t) {
		r, _ := rel(p.ImportPath)
		if top, _, _ := strings.Cut(r, "/"); top == "examples" || startsServers(r) || strings.HasSuffix(r, "test") {
			continue
		}
		for _, i := range p.Imports {
			if q, ours := rel(i); ours && strings.HasSuffix(q, "test") {
				t.Errorf("%s imports %s", r, q)
			}
		}
	}
}
