// Package kubernetes tests the manifests of docs/kubernetes. It is a module of its own, so that nobody else gets Kubernetes' types.
package kubernetes
