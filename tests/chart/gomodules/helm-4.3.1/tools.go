//go:build tools

// Package tools pins what is built here.
package tools

import (
	_ "helm.sh/helm/v4/cmd/helm"
)
