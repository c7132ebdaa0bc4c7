//go:build tools

// Package tools pins what is built here.
package tools

import (
	_ "sigs.k8s.io/karpenter/kwok"
)
