package main

import "syscall"

// maxResident is a process's largest resident size, in bytes (getrusage(2)).
func maxResident(u *syscall.Rusage) int64 { return u.Maxrss }
