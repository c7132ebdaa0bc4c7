//go:build tools

// Package tools pins what is built here.
package tools

import (
	_ "github.com/zitadel/oidc/v3/example/server"
)
