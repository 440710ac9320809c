// Deploys a file of flows with connect-go, and waits until they have run for some seconds. If they fail, the service
// deploys the previous ones again, and this program exits with 1.
//
//	go run . -server http://127.0.0.1:8080 flows.json
//
// If the service requires a token, set the environment variable TOKEN.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"

	"connectrpc.com/connect"

	flowgatev1 "example.com/deploy/gen/flowgate/v1"
	"example.com/deploy/gen/flowgate/v1/flowgatev1connect"
)

func main() {
	server := flag.String("server", "http://127.0.0.1:8080", "URL of the service")
	wait := flag.Uint("wait", 5, "seconds for which the flows must run")
	flag.Parse()
	if err := deploy(context.Background(), *server, flag.Arg(0), uint32(*wait)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func deploy(ctx context.Context, server, file string, wait uint32) error {
	nodes, err := readFlows(file)
	if err != nil {
		return err
	}
	client := flowgatev1connect.NewFlowsServiceClient(http.DefaultClient, server, connect.WithInterceptors(authenticate()))
	active, err := client.GetFlows(ctx, connect.NewRequest(&flowgatev1.GetFlowsRequest{}))
	if err != nil {
		return fmt.Errorf("read the flows: %w", err)
	}
	response, err := client.SetFlows(ctx, connect.NewRequest(&flowgatev1.SetFlowsRequest{
		Flows:          nodes,
		Rev:            &active.Msg.Rev,
		DeploymentType: flowgatev1.DeploymentType_DEPLOYMENT_TYPE_NODES,
		Wait:           &wait,
		OnFailure:      flowgatev1.OnFailure_ON_FAILURE_UNDO,
	}))
	if err != nil {
		return explain(err)
	}
	deployed := response.Msg
	if deployed.Outcome != flowgatev1.DeploymentOutcome_DEPLOYMENT_OUTCOME_RUNNING {
		return fmt.Errorf("the flows do not run: %v, missing types %v", deployed.Outcome, deployed.MissingTypes)
	}
	fmt.Printf("%d nodes run, revision %s\n", len(nodes), deployed.Rev)
	return nil
}

// explain names the deployment that came first if there was one.
func explain(err error) error {
	var failure *connect.Error
	if !errors.As(err, &failure) {
		return err
	}
	for _, detail := range failure.Details() {
		value, _ := detail.Value()
		if conflict, ok := value.(*flowgatev1.DeploymentError); ok && conflict.Active != nil {
			return fmt.Errorf("%q has deployed revision %s in the meantime: %w", conflict.Active.User, conflict.Active.Rev, err)
		}
	}
	return err
}

func authenticate() connect.UnaryInterceptorFunc {
	token := os.Getenv("TOKEN")
	return func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			if token != "" {
				request.Header().Set("Authorization", "Bearer "+token)
			}
			return next(ctx, request)
		}
	}
}
