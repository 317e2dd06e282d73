package services

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tool is a program that must be on the machine.
type tool struct {
	binary  string
	install string
}

var (
	toolJava  = tool{"java", "Java 17 or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk)"}
	toolMaven = tool{"mvn", "Apache Maven 3.8 or newer (Debian, Ubuntu: apt install maven; macOS: brew install maven)"}
)

// MissingToolError says in one line which programs are not on this machine, what to install, and which environment
// variable names a running server instead.
type MissingToolError struct {
	Binaries []string // java, mvn
	Install  []string // one entry per binary
	Env      string
}

// Error is one line.
func (e *MissingToolError) Error() string {
	return fmt.Sprintf("services: %s not found: install %s, or name a running server in %s",
		strings.Join(e.Binaries, " and "), strings.Join(e.Install, " and "), e.Env)
}

// needTools answers a *MissingToolError that names all that is missing at once.
func needTools(env string, tools ...tool) error {
	missing := &MissingToolError{Env: env}
	for _, t := range tools {
		if _, err := lookTool(t); err != nil {
			missing.Binaries = append(missing.Binaries, t.binary)
			missing.Install = append(missing.Install, t.install)
		}
	}
	if len(missing.Binaries) == 0 {
		return nil
	}
	return missing
}

// lookTool finds a program on PATH, and java also below JAVA_HOME, as Maven does.
func lookTool(t tool) (string, error) {
	path, err := exec.LookPath(t.binary)
	if err == nil || t != toolJava {
		return path, err
	}
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return exec.LookPath(filepath.Join(home, "bin", t.binary))
	}
	return "", err
}

// javaPath returns the program that runs the Java servers.
func javaPath(env string) (string, error) {
	if err := needTools(env, toolJava); err != nil {
		return "", err
	}
	return lookTool(toolJava)
}
