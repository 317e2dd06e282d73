package cases

import (
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/ackledger/ackledger/bench/internal/suite"
)

// peers are the modules whose versions stand in the results.
var peers = []string{"github.com/ThreeDotsLabs/watermill", "github.com/ThreeDotsLabs/watermill-kafka/v3", "github.com/riverqueue/river",
	"github.com/twmb/franz-go", "github.com/jackc/pgx/v5"}

// Facts are what is known of the machine and the peers before anything runs. Servers note themselves when they start.
func Facts() []suite.Fact {
	out := []suite.Fact{
		{Name: "Go", Value: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH},
		{Name: "processors", Value: processors()},
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			for _, peer := range peers {
				if dep.Path == peer {
					out = append(out, suite.Fact{Name: strings.TrimPrefix(dep.Path, "github.com/"), Value: dep.Version})
				}
			}
		}
	}
	if m := regexp.MustCompile(`parallel-consumer-core</artifactId>\s*<version>([^<]+)`).FindSubmatch(parallelPom); m != nil {
		out = append(out, suite.Fact{Name: "confluent parallel-consumer", Value: string(m[1])})
	}
	return out
}

// processors is how many this process may use, and, where Linux says so, which.
func processors() string {
	text := strings.TrimSpace(strings.Join([]string{strconv.Itoa(runtime.NumCPU()), model()}, " "))
	return text + ", shared by all servers and clients"
}

func model() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "" // not Linux
	}
	if m := regexp.MustCompile(`(?m)^model name\s*:\s*(.+)$`).FindSubmatch(info); m != nil {
		return "× " + string(m[1])
	}
	return ""
}
