//go:build tools

// Package tools pins what is built here.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
)
