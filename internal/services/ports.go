package services

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports come from below the range that kernels give to outgoing connections (Linux: 32768 and up, ip_local_port_range
// in ip(7); macOS: 49152 and up). A stopped server's port in that range can be taken while it is down: a client that
// dials it again and again is given that very port one day and connects to itself.
const (
	firstPort = 18_000
	lastPort  = 32_000
)

// freePorts returns n different loopback ports on which nobody listens.
func freePorts(n int) ([]int, error) {
	const tries = 100
	var ports []int
	var errs []error
	for range tries {
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp4", loopback(port))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		defer l.Close() // held until all are found, so that they differ
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("services: no %d free ports between %d and %d: %w", n, firstPort, lastPort, errors.Join(errs...))
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
