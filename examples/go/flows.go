package main

import (
	"encoding/json"
	"fmt"
	"os"

	"google.golang.org/protobuf/types/known/structpb"

	flowgatev1 "example.com/deploy/gen/flowgate/v1"
)

// readFlows reads a Node-RED flow file, in which each node has its properties beside its id and type.
func readFlows(file string) ([]*flowgatev1.Node, error) {
	document, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var objects []map[string]any
	if err := json.Unmarshal(document, &objects); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	nodes := make([]*flowgatev1.Node, len(objects))
	for index, object := range objects {
		if nodes[index], err = toNode(object); err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", file, index, err)
		}
	}
	return nodes, nil
}

func toNode(object map[string]any) (*flowgatev1.Node, error) {
	id, _ := object["id"].(string)
	kind, _ := object["type"].(string)
	node := &flowgatev1.Node{Id: id, Type: kind}
	if label, ok := object["label"].(string); ok {
		node.Label = &label
		delete(object, "label")
	}
	delete(object, "id")
	delete(object, "type")
	properties, err := structpb.NewStruct(object)
	node.Properties = properties
	return node, err
}
