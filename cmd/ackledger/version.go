package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which program this is",
		Args:  cobra.NoArgs,
		RunE: begun(func(cmd *cobra.Command) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "ackledger %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		}),
	}
}

// version is what Go noted when the program was built: a tag, or the commit.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
