//go:build tools

// Package tools pins what is built here.
package tools

import (
	_ "github.com/oauth2-proxy/oauth2-proxy/v7"
)
