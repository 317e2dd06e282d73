package services

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	toolNPM   = tool{"npm", "Node.js with npm (Debian, Ubuntu: apt install npm; macOS: brew install node)"}
)

// MissingToolError says in one line which programs are not on this machine, what to install, and which environment
// variables name running servers instead.
type MissingToolError struct {
	Binaries []string // java, mvn, npm
	Install  []string // one entry per binary
	Env      []string
}

// Error is one line.
func (e *MissingToolError) Error() string {
	return fmt.Sprintf("services: %s not found: install %s, or name running servers in %s",
		strings.Join(e.Binaries, " and "), strings.Join(e.Install, " and "), strings.Join(e.Env, ", "))
}

// JoinErrors is [errors.Join], but that what several servers miss is said once, in one line: a [*MissingToolError].
func JoinErrors(errs ...error) error {
	var others []error
	all := &MissingToolError{}
	for _, err := range errs {
		missing, ok := errors.AsType[*MissingToolError](err)
		if !ok {
			others = append(others, err)
			continue
		}
		for i, binary := range missing.Binaries {
			if !slices.Contains(all.Binaries, binary) {
				all.Binaries, all.Install = append(all.Binaries, binary), append(all.Install, missing.Install[i])
			}
		}
		all.Env = append(all.Env, missing.Env...)
	}
	if len(all.Env) > 0 {
		others = append(others, all)
	}
	return errors.Join(others...)
}

// needTools answers a *MissingToolError that names all that is missing at once.
func needTools(env string, tools ...tool) error {
	missing := &MissingToolError{Env: []string{env}}
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
