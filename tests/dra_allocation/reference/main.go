// Command dra-allocator answers questions about allocations of claims with Kubernetes' own allocator.
//
// It reads one JSON object a line and writes one a line. tests/dra_allocation/record_reference.py asks it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// searchMax ends a search that would take too long: its question is then one without an answer.
const searchMax = 3 * time.Second

type question struct {
	Node    v1.Node                      `json:"node"`
	Classes []*resourceapi.DeviceClass   `json:"classes"`
	Slices  []*resourceapi.ResourceSlice `json:"slices"`
	Claims  []*resourceapi.ResourceClaim `json:"claims"`
	Holders []*resourceapi.ResourceClaim `json:"holders"`
	Lists   bool                         `json:"lists"`
	Groups  bool                         `json:"groups"`
}

type answer struct {
	Outcome string                         `json:"outcome"`
	Error   string                         `json:"error,omitempty"`
	Results []resourceapi.AllocationResult `json:"results,omitempty"`
}

type classes []*resourceapi.DeviceClass

func (all classes) List() ([]*resourceapi.DeviceClass, error) { return all, nil }

func (all classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, one := range all {
		if one.Name == name {
			return one, nil
		}
	}
	return nil, fmt.Errorf("device class %s not found", name)
}

// held is what kube-scheduler reads of the statuses of claims.
func held(holders []*resourceapi.ResourceClaim) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range holders {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, one := range claim.Status.Allocation.Devices.Results {
			if one.AdminAccess != nil && *one.AdminAccess {
				continue
			}
			id := structured.MakeDeviceID(one.Driver, one.Pool, one.Device)
			if one.ShareID == nil {
				state.AllocatedDevices.Insert(id)
				continue
			}
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, one.ShareID))
			if one.ConsumedCapacity != nil {
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, one.ConsumedCapacity))
			}
		}
	}
	return state
}

func answered(asked question) answer {
	features := structured.Features{
		AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true, DeviceTaints: true,
		FractionalCapacityRange: true, PartitionableDevices: true, PrioritizedList: true,
		ListTypeAttributes: asked.Lists, CompatibilityGroups: asked.Groups,
	}
	ctx, cancel := context.WithTimeout(context.Background(), searchMax)
	defer cancel()
	cache := cel.NewCache(64, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: asked.Lists})
	allocator, err := structured.NewAllocator(ctx, features, held(asked.Holders), classes(asked.Classes), asked.Slices, cache)
	if err != nil {
		return answer{Outcome: "error", Error: err.Error()}
	}
	results, err := allocator.Allocate(ctx, &asked.Node, asked.Claims)
	switch {
	case ctx.Err() != nil:
		return answer{Outcome: "too long"}
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return answer{Outcome: "node", Error: err.Error()}
	case err != nil:
		return answer{Outcome: "error", Error: err.Error()}
	case results == nil:
		return answer{Outcome: "none"}
	}
	return answer{Outcome: "fit", Results: results}
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
