package allocatortesting

import (
	"encoding/json"
	"os"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
)

// dumping keeps the lines of tests that run side by side apart.
var dumping sync.Mutex

// dumpCase writes the input of a published case as a question to the allocator, one line in the file DUMP_TO.
func dumpCase(name string, tc AllocatorTestCase, node *v1.Node, claims []*resourceapi.ResourceClaim) {
	dumping.Lock()
	defer dumping.Unlock()
	holders := []resourceapi.DeviceRequestAllocationResult{}
	result := func(id DeviceID) resourceapi.DeviceRequestAllocationResult {
		return resourceapi.DeviceRequestAllocationResult{
			Request: "r", Driver: id.Driver.String(), Pool: id.Pool.String(), Device: id.Device.String(),
		}
	}
	for _, id := range tc.allocatedDevices {
		holders = append(holders, result(id))
	}
	for id, amounts := range tc.allocatedCapacityDevices {
		one := result(id)
		share := apitypes.UID("00000000-0000-4000-8000-000000000000")
		one.ShareID = &share
		one.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{}
		for key, amount := range amounts {
			one.ConsumedCapacity[key] = *amount
		}
		holders = append(holders, one)
	}
	number := 1
	for id := range tc.allocatedSharedDeviceIDs {
		one := result(id.GetDeviceID())
		share := apitypes.UID("00000000-0000-4000-8000-" + strconv.Itoa(100000000000+number))
		number++
		one.ShareID = &share
		holders = append(holders, one)
	}
	held := []resourceapi.ResourceClaim{}
	for index, one := range holders {
		held = append(held, resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "holder-" + strconv.Itoa(index)},
			Spec: resourceapi.ResourceClaimSpec{
				Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{}},
			},
			Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
				Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{one}},
			}},
		})
	}
	line, err := json.Marshal(map[string]any{
		"name": name, "features": tc.features, "node": node, "classes": tc.classes, "slices": tc.slices,
		"claims": claims, "holders": held,
		"lists": tc.features.ListTypeAttributes, "groups": tc.features.CompatibilityGroups,
	})
	if err != nil {
		panic(err)
	}
	file, err := os.OpenFile(os.Getenv("DUMP_TO"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	if _, err := file.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}
