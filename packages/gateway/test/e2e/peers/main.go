// Serves the RPCs of compliance.proto by transcoders of other vendors. The first argument selects one. Prints its URL.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"connectrpc.com/vanguard/vanguardgrpc"
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "flowgate/peers/gen/gatewaytest/v1"
)

const unknownColor = pb.Color(-4711)

type compliance struct {
	pb.UnimplementedComplianceServiceServer
}

func repeat(request *pb.RepeatDataRequest) (*pb.RepeatDataResponse, error) {
	return &pb.RepeatDataResponse{Request: request}, nil
}

func (compliance) RepeatDataBody(_ context.Context, request *pb.RepeatDataRequest) (*pb.RepeatDataResponse, error) {
	return repeat(request)
}

func (compliance) RepeatDataBodyInfo(_ context.Context, request *pb.RepeatDataRequest) (*pb.RepeatDataResponse, error) {
	return repeat(request)
}

func (compliance) RepeatDataQuery(_ context.Context, request *pb.RepeatDataRequest) (*pb.RepeatDataResponse, error) {
	return repeat(request)
}

func (compliance) RepeatDataSimplePath(_ context.Context, request *pb.RepeatDataRequest) (*pb.RepeatDataResponse, error) {
	return repeat(request)
}

func (compliance) RepeatDataPathResource(_ context.Context, request *pb.RepeatDataRequest) (*pb.RepeatDataResponse, error) {
	return repeat(request)
}

func (compliance) RepeatDataPathTrailingResource(_ context.Context, request *pb.RepeatDataRequest) (*pb.RepeatDataResponse, error) {
	return repeat(request)
}

func (compliance) RepeatDataBodyPut(_ context.Context, request *pb.RepeatDataRequest) (*pb.RepeatDataResponse, error) {
	return repeat(request)
}

func (compliance) RepeatDataBodyPatch(_ context.Context, request *pb.RepeatDataRequest) (*pb.RepeatDataResponse, error) {
	return repeat(request)
}

func colorOf(unknown bool) pb.Color {
	if unknown {
		return unknownColor
	}
	return pb.Color_COLOR_GREEN
}

func (compliance) GetEnum(_ context.Context, request *pb.GetEnumRequest) (*pb.GetEnumResponse, error) {
	return &pb.GetEnumResponse{Request: request, Color: colorOf(request.GetUnknown())}, nil
}

func (compliance) VerifyEnum(_ context.Context, response *pb.GetEnumResponse) (*pb.GetEnumResponse, error) {
	if response.GetColor() == colorOf(response.GetRequest().GetUnknown()) {
		return response, nil
	}
	failure := status.Newf(codes.InvalidArgument, "the color is %d", response.GetColor())
	detailed, err := failure.WithDetails(&errdetails.ErrorInfo{Reason: "WRONG_COLOR", Domain: "compliance.test"})
	if err != nil {
		return nil, err
	}
	return nil, detailed.Err()
}

func createGrpcGateway() (http.Handler, error) {
	// By default a path is decoded before it is split, so that an encoded slash is a separator.
	mux := runtime.NewServeMux(runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptSlash))
	return mux, pb.RegisterComplianceServiceHandlerServer(context.Background(), mux, compliance{})
}

func createVanguard() (http.Handler, error) {
	server := grpc.NewServer()
	pb.RegisterComplianceServiceServer(server, compliance{})
	return vanguardgrpc.NewTranscoder(server)
}

var transcoders = map[string]func() (http.Handler, error){
	"grpc-gateway": createGrpcGateway,
	"vanguard":     createVanguard,
}

func main() {
	if len(os.Args) != 2 || transcoders[os.Args[1]] == nil {
		fail(fmt.Errorf("the argument must be grpc-gateway or vanguard"))
	}
	handler, err := transcoders[os.Args[1]]()
	if err != nil {
		fail(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	fmt.Printf("listens on http://%s\n", listener.Addr())
	fail(http.Serve(listener, handler))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
