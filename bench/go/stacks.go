package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"connectrpc.com/connect"
	"connectrpc.com/vanguard"
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	flowgatev1 "flowgate/bench/gen/flowgate/v1"
	"flowgate/bench/gen/flowgate/v1/flowgatev1connect"
)

// login returns the response of the service if passwords are configured.
func login() *flowgatev1.GetLoginResponse {
	return &flowgatev1.GetLoginResponse{
		Type: "credentials",
		Prompts: []*flowgatev1.Prompt{
			{Id: "username", Type: "text", Label: "Username"},
			{Id: "password", Type: "password", Label: "Password"},
		},
	}
}

type grpcAuth struct {
	flowgatev1.UnimplementedAuthServiceServer
}

func (grpcAuth) GetLogin(context.Context, *flowgatev1.GetLoginRequest) (*flowgatev1.GetLoginResponse, error) {
	return login(), nil
}

type connectAuth struct {
	flowgatev1connect.UnimplementedAuthServiceHandler
}

func (connectAuth) GetLogin(
	context.Context,
	*connect.Request[flowgatev1.GetLoginRequest],
) (*connect.Response[flowgatev1.GetLoginResponse], error) {
	return connect.NewResponse(login()), nil
}

func serveConnect(listener net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle(flowgatev1connect.NewAuthServiceHandler(connectAuth{}))
	return serveHTTP(listener, mux)
}

// serveGrpc changes the health of the server on SIGTERM, as draining does in the service.
func serveGrpc(listener net.Listener) error {
	server := grpc.NewServer()
	flowgatev1.RegisterAuthServiceServer(server, grpcAuth{})
	status := health.NewServer()
	grpc_health_v1.RegisterHealthServer(server, status)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM)
	go func() {
		<-signals
		status.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
		<-signals
		os.Exit(0)
	}()
	return server.Serve(listener)
}

func serveGatewayInProcess(listener net.Listener) error {
	mux := runtime.NewServeMux()
	if err := flowgatev1.RegisterAuthServiceHandlerServer(context.Background(), mux, grpcAuth{}); err != nil {
		return err
	}
	return serveHTTP(listener, mux)
}

// serveGatewayProxy runs the gRPC server in the same process, because its CPU time is part of the cost of a call.
func serveGatewayProxy(listener net.Listener) error {
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	flowgatev1.RegisterAuthServiceServer(server, grpcAuth{})
	go func() { fail(server.Serve(backend)) }()
	mux := runtime.NewServeMux()
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	err = flowgatev1.RegisterAuthServiceHandlerFromEndpoint(context.Background(), mux, backend.Addr().String(), options)
	if err != nil {
		return err
	}
	return serveHTTP(listener, mux)
}

func serveVanguard(listener net.Listener) error {
	service := vanguard.NewService(flowgatev1connect.NewAuthServiceHandler(connectAuth{}))
	transcoder, err := vanguard.NewTranscoder([]*vanguard.Service{service})
	if err != nil {
		return err
	}
	return serveHTTP(listener, transcoder)
}
