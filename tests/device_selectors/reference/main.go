// Command dra-reference answers questions about device selectors and allocations of claims with Kubernetes' own code.
//
// It reads one JSON object a line and writes one a line. tests/device_selectors/record_reference.py asks it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"
)

type question struct {
	Expression string                                                    `json:"expression"`
	New        bool                                                      `json:"new"`
	Consumable bool                                                      `json:"consumable"`
	Lists      bool                                                      `json:"lists"`
	Driver     string                                                    `json:"driver"`
	Multiple   *bool                                                     `json:"allowMultipleAllocations"`
	Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
}

type answer struct {
	CompileError string `json:"compileError,omitempty"`
	Estimate     uint64 `json:"estimate,omitempty"`
	Match        bool   `json:"match"`
	MatchError   string `json:"matchError,omitempty"`
	Cost         uint64 `json:"cost"`
}

func answered(asked question) answer {
	kind := environment.StoredExpressions
	if asked.New {
		kind = environment.NewExpressions
	}
	features := cel.Features{EnableConsumableCapacity: asked.Consumable, EnableListTypeAttributes: asked.Lists}
	compiled := cel.GetCompiler(features).CompileCELExpression(asked.Expression, cel.Options{EnvType: &kind})
	if compiled.Error != nil {
		return answer{CompileError: compiled.Error.Error()}
	}
	found := answer{Estimate: compiled.MaxCost}
	match, details, err := compiled.DeviceMatches(context.Background(), cel.Device{
		Driver: asked.Driver, AllowMultipleAllocations: asked.Multiple,
		Attributes: asked.Attributes, Capacity: asked.Capacity,
	})
	if cost := details.ActualCost(); cost != nil {
		found.Cost = *cost
	}
	if err != nil {
		found.MatchError = err.Error()
	}
	found.Match = match
	return found
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<26)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		if err := out.Encode(answered(asked)); err != nil {
			os.Exit(1)
		}
	}
}
